package main

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// yamlVectors turns YAML into JSON, with the members of maps sorted, and JSON into YAML. Where a
// strict reading refuses what a lenient one takes, it says why.
func yamlVectors() []vector {
	var out []vector
	for i, text := range yamlTexts() {
		v := named(fmt.Sprintf("to-json-%d", i)).with("direction", "json").text("input", []byte(text))
		json, err := yaml.YAMLToJSON([]byte(text))
		v = v.with("ok", err == nil)
		if err == nil {
			v = v.text("json", json)
			if _, strict := yaml.YAMLToJSONStrict([]byte(text)); strict != nil {
				v = v.text("strict", []byte(strict.Error()))
			}
		}
		out = append(out, v)
	}
	for i, text := range yamlDocuments() {
		v := named(fmt.Sprintf("to-yaml-%d", i)).with("direction", "yaml").text("input", []byte(text))
		// Upstream reads the JSON as YAML, which has no surrogate pairs.
		if written, err := yaml.JSONToYAML([]byte(text)); err == nil {
			out = append(out, v.text("yaml", written))
		}
	}
	return out
}

func yamlTexts() []string {
	texts := []string{
		"", "---\n", "# nothing\n", "a: 1\n---\nb: 2\n", "{}", "[]", "\"quoted\"", "{\"a\": [1, 2.50, \"x\\u00e9\"]}",
		"a: 1\nb: 2\na: 3\n", "a: b: c", "a: [1, 2", "\ta: 1", "a: *x", "- a\n b: 1\n",
		"1: a\n2.5: b\ntrue: c\nno: d\n", "1000000.0: a\n0.00001: b\n0.1: c\n", "~: a\n", "[a]: b\n", "{a: 1}: b\n", "1e400: x\n",
		"a: |\n  one\n  two\nb: >\n  one\n  two\n\n  three\nc: |-\n  cut\nd: |+\n  kept\n\n",
		"a: 'it''s'\nb: \"tab\\tnl\\n\"\nc: plain text # comment\nd: with#hash\n",
		"base: &base {a: 1, b: 2}\nx:\n  <<: *base\n  b: 3\ny:\n  b: 3\n  <<: *base\n",
		"m: &m {a: 1}\nn: &n {a: 2, b: 2}\nx:\n  <<: [*m, *n]\n", "x:\n  <<: 1\n", "x:\n  <<: {a: 1}\n", "x:\n  \"<<\": {a: 1}\n",
		"l: &l [{a: 1}]\nx:\n  <<: *l\n", "a: &a [*a]\n", "a: &a {b: *a}\n", "a: &x 1\nb: *x\nc: *x\n", "*a : 1\n",
		"a: !!str 1\nb: !!int \"2\"\nc: !!float 3\nd: !!null ''\ne: !mine 4\nf: !!str\n", "a: !!int x\n", "a: !!bool 1\n",
		"a: 2001-12-14\nb: 2001-12-14T21:59:43Z\nc: 2001-12-14 21:59:43.10\n", "2001-12-14: a\n",
		"a:\nb: ''\nc: \"\"\n", "- - 1\n  - 2\n- - 3\n", "apiVersion: v1\nkind: Event\nmetadata: {name: x}\n",
		"a: \"\\ud83d\\ude00\"\nb: \"\\x41\"\n", "? a\n: b\n", "\ufeffa: 1\n", "%YAML 1.1\n---\na: 1\n", "a: @x\n", "a: `x`\n", "a: %x\n",
		"a: [yes, 'yes', Yes, yEs, y, n, on, OFF]\n", "a:   spaced   out  \n", "a: x:y\nb: http://x/y?z=1\n", "a: - b\n",
		"---\na: 1\n...\nb: 2\n", "a: 1\r\nb: 2\r\n", "a: one\n  two\n\n  three\n", "a: -\n", "a: ?x\n", "a: 'open\n", "a: \"open\n",
	}
	for _, s := range strings.Fields(`0 -0 +1 1 12 012 08 09.5 0x1F 0o17 0b101 -0b101 +0b1 -0x1F 1_000 _1 1__0 0x_1F 1. .5 +.5 -.5 . .. 1.5e3 1e3 1E-3
		1e400 -1e400 1e-400 .inf -.inf +.INF .nan .NAN inf nan 9223372036854775807 9223372036854775808 18446744073709551615
		18446744073709551616 -9223372036854775808 -9223372036854775809 123456789.125 1e21 1e20 1e-6 1e-7 0.1 100000000000000000000
		1:30 190:20:30 1:30.5 true True tRUE false n N y Y yes YES no NO on On off OFF null Null NULL nULL ~ 0.0 -0.0 1.0
		2001-12-14 2001-2-3 2001-02-30 2001-1-1T1:2:3Z 2001-01-01t01:02:03+01:00 2001-13-01 20010-01-01 1-1 --- -- - -a - +a 0xZ 0o8 0b2 5e 5e+ 1.2.3 <<  = ! `) {
		texts = append(texts, "v: "+s+"\n")
	}
	// What a map has twice.
	return append(texts,
		"a: 1\na: 2\na: 3\n", "a: {b: 1, b: 2}\na: {c: 1, c: 2}\n", "- a: 1\n  a: 2\n- b: 1\n  b: 2\n", "{a: 1, a: 2}", "{\"a\": 1, \"a\": 2}",
		"1: a\n1: b\n", "0x10: a\n16: b\n", "1.5: a\n1.5: b\n", "1e6: a\n1000000.0: b\n", "yes: a\ntrue: b\n", "2001-12-14: a\n\"2001-12-14\": b\n",
		"a:\n  - 1\na:\n  - 2\n", "a: |\n  x\na: |\n  y\n", "a: >-\n  x\n\na:\n\n  y\n", "a: 1\n'a': 2\n\"a\": 3\n", "\"tab\\t\": 1\n\"tab\\t\": 2\n", "é: 1\né: 2\n",
		"x: &x {a: 1, a: 2}\ny: *x\nz: *x\n", "x: &x {a: 1}\ny:\n  a: 2\n  <<: *x\n  a: 3\n", "x: &x {a: 1}\ny: &y {a: 2}\nz:\n  <<: [*x, *y]\n",
		"&k a: 1\n*k : 2\n", "a: 1\n? a\n: 2\n", "a: ''\na: \"\"\n", "a: ~\na: ~\n")
}

func yamlDocuments() []string {
	documents := []string{
		`{}`, `[]`, `null`, `1`, `"x"`, `"a\nb"`, `{"a":{}}`, `{"a":[]}`, `{"a":null,"b":true,"c":1.0,"d":1e6,"e":1e21,"f":0.00001,"g":-5,"h":18446744073709551615}`,
		`{"b":1,"a":2,"a10":1,"a9":1,"A":3,"1":4,"10":5,"9":6,"_":7,"é":8,"a-b":9,"a.b":10,"ab":11}`,
		`[[1,2],[3,[4,{"a":5}]],{"b":6,"c":[7]},[],{}]`, `{"a":[{"b":1,"c":2},{"d":[1]}],"e":{"f":{"g":"h"}}}`,
		`{"apiVersion":"v1","kind":"Event","metadata":{"name":"x.1","creationTimestamp":"2023-11-14T22:14:05Z","labels":{"a":"true","b":"1"}},"eventTime":null,"count":2,"message":"Back-off restarting failed container: it said \"no\" & left"}`,
		`{"` + strings.Repeat("k", 128) + `":1,"` + strings.Repeat("k", 129) + `":2}`, `{"a\nb":1}`, `{"":1}`, `{"a b":1,"a: b":2,"yes":3,"#":4}`,
	}
	for _, s := range []string{
		``, ` `, `a`, ` a`, `a `, `yes`, `y`, `null`, `~`, `1`, `1.5`, `0x1`, `1:30`, `2001-01-01`, `2001-01-01T00:00:00Z`, `-`, `- a`, `-a`, `--- a`, `...`, `a: b`, `a:b`, `a:`, `:a`, `a #b`, `a#b`, `#a`,
		`[a`, `{a`, `]`, `,a`, `&a`, `*a`, `!a`, `|a`, `>a`, `'a`, `a'b`, `\"a`, `a\"b`, `%a`, `@a`, "`a", `?a`, `? a`, `=`, `<<`, `a\tb`, `\ta`, `a\nb`, `a\nb\n`, `a\n\n`, `\na`, `\n`, `\n\n`, ` a\nb`, `a \nb`, `a\n b`, `a\r\nb`, `a\rb`, `a\\b`,
		`a\\b: c`, `\u0001`, `\u007f`, `\u0085`, `\u00a0`, `\u2028x`, `\ufeffx`, `x\ufeff`, `\ue000`, `\uffff`, `\ud83d\ude00`, `caf\u00e9`, `it's: x`, `a\nb `, `tab\there\nnl`,
		strings.Repeat("word ", 30) + "end", strings.Repeat("word ", 30), "'" + strings.Repeat("word ", 30) + "end", `\u0007` + strings.Repeat("word  ", 30) + "end", "x: " + strings.Repeat("word ", 30) + "end", strings.Repeat("w", 100) + " x y", "a\\n" + strings.Repeat("word ", 30) + "z",
	} {
		documents = append(documents, `"`+s+`"`, `{"k":"`+s+`"}`, `{"l":{"m":["`+s+`","z"]}}`)
	}
	return documents
}
