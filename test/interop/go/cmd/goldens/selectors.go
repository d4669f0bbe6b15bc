package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/registry/core/event"
)

type set = map[string]string

// A match tells whether a selector accepts a set.
func match(key string, s set, result bool) vector { return vector{{key, s}, {"result", result}} }

// fieldSelectorVectors has three kinds: "parse" is the grammar, "label" the
// names each API accepts and what they become, "event" whether an event
// matches a selector in the spelling of an API.
func fieldSelectorVectors() []vector {
	var out []vector
	sets := []set{{}, {"a": "b"}, {"a": ""}, {"a": "b", "c": "d"}, {"a": "b,c"}, {"a": "x=y"}, {"a": `\`}, {"c": "d"}}
	for _, input := range fieldSelectorInputs() {
		v := vector{{"kind", "parse"}}.text("input", []byte(input))
		selector, err := fields.ParseSelector(input)
		if err != nil {
			out = append(out, v.with("ok", false).text("error", []byte(err.Error())))
			continue
		}
		requirements := []vector{}
		for _, r := range selector.Requirements() {
			requirements = append(requirements, vector{}.text("field", []byte(r.Field)).with("op", string(r.Operator)).text("value", []byte(r.Value)))
		}
		var matches []vector
		for _, s := range sets {
			matches = append(matches, match("set", s, selector.Matches(fields.Set(s))))
		}
		out = append(out, v.with("ok", true).text("string", []byte(selector.String())).with("requirements", requirements).with("matches", matches))
	}

	names := []string{"metadata.name", "metadata.namespace", "metadata.uid", "metadata", "name", "", "reason", "type", "source", "source.component", "count", "message", "note", "action", "reportingComponent", "reportingController", "reportingInstance", "deprecatedSource", "Reason", " reason", "involvedObject", "regarding", "related.name", "series.count", "eventTime"}
	for _, prefix := range []string{"involvedObject.", "regarding."} {
		for _, f := range []string{"kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath", "Kind", "x"} {
			names = append(names, prefix+f)
		}
	}
	for _, a := range bothAPIs {
		for _, name := range names {
			v := vector{{"kind", "label"}, {"api", a.name}, {"label", name}, {"value", "v"}}
			label, value, err := legacyscheme.Scheme.ConvertFieldLabel(a.scope.Kind, name, "v")
			if err != nil {
				out = append(out, v.with("ok", false).with("error", err.Error()))
			} else {
				out = append(out, v.with("ok", true).with("to_label", label).with("to_value", value))
			}
		}
	}

	// Small ones, because each selector lists them all.
	events := []string{
		`{"metadata":{"name":"full.1","namespace":"default"},"involvedObject":{"kind":"Pod","namespace":"default","name":"web-0","uid":"uid-web-0","apiVersion":"v1","resourceVersion":"17","fieldPath":"spec.containers{web}"},"reason":"Scheduled","source":{"component":"scheduler"},"reportingComponent":"other","type":"Normal"}`,
		`{"metadata":{"name":"n","namespace":"x"},"reportingComponent":"only-reporting","type":"Warning","involvedObject":{"kind":"Node"}}`,
		`{"source":{"component":"only-source","host":"h"},"reason":"Started"}`,
		`{}`,
	}
	for _, c := range []struct {
		api       *api
		selectors []string
	}{
		{coreAPI, []string{"", "metadata.name=full.1", "metadata.namespace=default", "metadata.namespace!=default", "involvedObject.kind=Pod", "involvedObject.kind!=Pod", "involvedObject.namespace=", "involvedObject.name=web-0,involvedObject.namespace=default,involvedObject.uid=uid-web-0", "involvedObject.uid=uid-web-0", "involvedObject.apiVersion=v1", "involvedObject.resourceVersion=17", "involvedObject.fieldPath=spec.containers{web}", "reason=Started", "reason==Scheduled", "reason=", "reportingComponent=other", "reportingComponent=", "source=scheduler", "source=only-reporting", "source=only-source", "source=", "source!=scheduler", "type=Normal", "type!=Normal,type!=Warning", "note=x", "regarding.kind=Pod"}},
		{eventsAPI, []string{"", "metadata.name=full.1", "regarding.kind=Pod", "regarding.kind!=Pod", "regarding.name=web-0,regarding.uid=uid-web-0", "regarding.namespace=", "regarding.fieldPath=spec.containers{web}", "reason=Scheduled", "reportingController=only-reporting", "reportingController=other", "type=Warning", "source=kubelet", "involvedObject.kind=Pod", "reportingComponent=kubelet"}},
	} {
		for _, s := range c.selectors {
			v := vector{{"kind", "event"}, {"api", c.api.name}, {"selector", s}}
			selector, err := must1(fields.ParseSelector(s)).Transform(func(label, value string) (string, string, error) {
				return legacyscheme.Scheme.ConvertFieldLabel(c.api.scope.Kind, label, value)
			})
			if err != nil {
				out = append(out, v.with("ok", false).with("error", err.Error()))
				continue
			}
			v = v.with("ok", true)
			var matches []vector
			for _, text := range events {
				e := must1(coreAPI.decode([]byte(text)))
				_, attributes, err := event.GetAttrs(e)
				must(err)
				matches = append(matches, vector{{"event", text}, {"result", selector.Matches(attributes)}})
			}
			out = append(out, v.with("matches", matches))
		}
	}
	return out
}

func fieldSelectorInputs() []string {
	return []string{
		"", ",", ",,", "a=b", "a==b", "a!=b", "a=", "a==", "a!=", "=b", "==b", "!=b", "=", "==", "!=", "a", "!a", "a=b,c=d", "c=d,a=b", "a=b,", ",a=b", "a=b,,c=d", "a=b,a=b", "a=b,a=c", "a=b,a!=c",
		" a=b", "a =b", "a= b", "a=b ", "a = b , c = d", " ", "a=b c", "\ta=b",
		`a=\,`, `a=\=`, `a=\\`, `a=b\,c`, `a=x\=y`, `a=\`, `a=\\\`, `a=\x`, `a=\n`, `a=b\`, `a=b\,`, `a=b=c`, `a==b=c`, `a=b==c`, `a!=b=c`, `a=b!=c`, `a\,b=c`, `a\=b=c`, `\a=b`, `a===b`, `a!==b`, `a!b`, `a=!b`,
		"a>1", "a<1", "a in (b)", "a notin (b)", "(a=b)", "a=(b,c)", `a="b"`, `a='b,c'`,
		"metadata.name=x", "involvedObject.namespace=", "involvedObject.fieldPath=spec.containers{web}", "a[0]=b", "a/b=c", "ä=ö", "a=日本", "a=b\nc", "a=b\x00", "a=%2C", "a=b;c=d", "a:b", "a=b:c",
		"a!=b,c!=d,e=f", "z=1,y=2,x=3", strings.Repeat("a", 300) + "=" + strings.Repeat("b", 300), "a\xff=b", "a=b\xff",
	}
}

func labelSelectorVectors() []vector {
	sets := []set{{}, {"a": "b"}, {"a": ""}, {"a": "c"}, {"a": "5"}, {"a": "-5"}, {"a": "x5"}, {"a": "b", "c": "d"}, {"c": "d"}, {"example.com/a": "b"}}
	var out []vector
	seen := map[string]bool{}
	for _, input := range labelSelectorInputs() {
		if seen[input] {
			panic("twice: " + input)
		}
		seen[input] = true
		v := vector{}.text("input", []byte(input))
		selector, err := labels.Parse(input)
		if err != nil {
			out = append(out, v.with("ok", false).text("error", []byte(err.Error())))
			continue
		}
		var matches []vector
		for _, s := range sets {
			matches = append(matches, match("labels", s, selector.Matches(labels.Set(s))))
		}
		out = append(out, v.with("ok", true).text("string", []byte(selector.String())).with("matches", matches))
	}
	return out
}

func labelSelectorInputs() []string {
	out := []string{
		// Operators.
		"", " ", "a", "!a", "! a", "a=b", "a==b", "a!=b", "a in (b)", "a in (b,c)", "a notin (b)", "a notin (b,c)", "a>1", "a<1", "a>5", "a>4", "a<6", "a > 4", "a>-6", "a<-4",
		// White space.
		" a = b ", "a\t=\tb", "a\n=b", "a\r=b", "a in(b)", "a in ( b , c )", "a  in  (b)", "a,c", " a , c ", "a = b , c", "a=b c=d", "a\u00a0=b", "a\v=b", "a in\n(b)",
		// Empty values and items.
		"a=", "a==", "a!=", "a=,c", "a in ()", "a notin ()", "a in (,)", "a in (b,)", "a in (,b)", "a in (b,,c)", "a in ( )", "a notin (,)", "a in (,,)",
		// Lists.
		"a=b,c=d", "c=d,a=b", "b,a", "b,!a,c in (z,y)", "a in (c,b,b)", "a=b,a=b", "a=b,a=c", "a,a", "a,!a", "a=b,a!=c", "c,a=b,a", "a in (b),a notin (c)",
		// Errors.
		",", "a,", ",a", "a,,b", "a=b,", ",a=b", "=b", "==b", "!=b", "=", "==", "!=", "!", "!!a", "a!", "a!b", "a!=b!=c", "a=b=c", "a===b", "a=!b", "a = !", "(a)", "a in", "a in b", "a in (", "a in (b", "a in (b,", "a in b)", "a in ((b))", "a in (b) c", "a in (b c)", "a in (b))", "a notin", "in", "notin", "in in (in)", "notin notin (notin)", "a in in", "x in (a) in (b)", "in=notin", "!in", "in,notin",
		"a>", "a<", "a>b", "a>1.5", "a>+1", "a>01", "a>9223372036854775807", "a>9223372036854775808", "a>=1", "a<=1", "a<>1", "a>1,a<9", "a>1<2", "a gt 1", "a > 1 2", ">1", "a>>1", "a>(1)",
		"!a=b", "!a in (b)", "! a,c", "a=b||c=d", "a=b&c=d", "a;b", "a:b", "a=b:c",
		// Keys and values.
		"example.com/a=b", "example.com/a", "/a", "a/", "a/b/c", "a//b", "-a", "a-", "a_b.c-d=1", "_a", "a.", "A=B", "1=2", "a=1.2", "a=-b", "a=b-", "a=_b", "a=b/c", "a=B_c.d-E9", "example..com/a", "Example.com/a", "-example.com/a", "é=a", "a=é", "a=日本", "a=\"b\"", "a='b'", "a=b\"c", "a@b", "a=b@c", "a=b c", "a b", "a=*", "a$", "a=\x00", "a\x00",
		"a\xff", "a=\xff", "kubernetes.io/hostname=node-1", "app.kubernetes.io/name in (web,api),!canary",
		"x=a,y in (b,c),!z,w notin (d),v>1,u<2",
	}
	out = append(out,
		strings.Repeat("a", 63)+"=b", strings.Repeat("a", 64)+"=b", "a="+strings.Repeat("b", 63), "a="+strings.Repeat("b", 64),
		strings.Repeat("p", 253)+"/a", strings.Repeat("p", 254)+"/a", strings.Repeat("p", 63)+"."+strings.Repeat("q", 63)+"/a=b", strings.Repeat("p", 64)+"/a=b",
	)
	var items []string
	for i := range 40 {
		items = append(items, fmt.Sprintf("v%d", (i*17)%40))
	}
	out = append(out, "a in ("+strings.Join(items, ",")+")")
	return out
}
