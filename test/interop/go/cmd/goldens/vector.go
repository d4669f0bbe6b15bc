package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"
	"unicode/utf8"
)

// Above this size an output is stored as length and hash: the whole folder has
// to stay small enough to live in the repository.
const digestAbove = 6000

// A vector is one JSON object whose members keep the order they were added in.
type vector []member

type member struct {
	key   string
	value any
}

func named(name string) vector { return vector{{"name", name}} }

func (v vector) with(key string, value any) vector {
	return append(v, member{key, value})
}

// text adds bytes as a string when JSON can carry them unchanged, otherwise in
// base64, or as a digest when they are many.
func (v vector) text(key string, b []byte) vector {
	switch {
	case len(b) > digestAbove:
		return v.digest(key, b)
	case utf8.Valid(b) && !bytes.ContainsRune(b, 0):
		return v.with(key, string(b))
	default:
		return v.with(key+"_b64", base64.StdEncoding.EncodeToString(b))
	}
}

// binary adds bytes that are never text.
func (v vector) binary(key string, b []byte) vector {
	if len(b) > digestAbove {
		return v.digest(key, b)
	}
	return v.with(key+"_b64", base64.StdEncoding.EncodeToString(b))
}

func (v vector) digest(key string, b []byte) vector {
	h := fnv.New64a()
	h.Write(b)
	return v.with(key+"_digest", vector{
		{"len", len(b)},
		{"fnv1a64", fmt.Sprintf("%016x", h.Sum64())},
	})
}

// input adds a recipe, written out when it is short.
func (v vector) input(key string, r recipe) vector {
	if len(r) == 1 && r[0].times == 1 {
		return v.text(key, []byte(r[0].data))
	}
	return v.with(key+"_recipe", r)
}

func (v vector) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range v {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(compact(m.key))
		b.WriteByte(':')
		b.Write(compact(m.value))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// compact is json.Marshal without the escaping of <, > and &.
func compact(value any) []byte {
	if s, ok := value.(string); ok && !utf8.ValidString(s) {
		panic(fmt.Sprintf("a golden string is not UTF-8: %q", s))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	must(e.Encode(value))
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// document puts each vector on its own line, so that a difference names the
// vector it is about.
func document(source string, vectors []vector) []byte {
	seen := map[string]bool{}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"source":%s,"vectors":[`+"\n", compact(source))
	for i, v := range vectors {
		if v[0].key == "name" {
			name := v[0].value.(string)
			if seen[name] {
				panic("two vectors are called " + name)
			}
			seen[name] = true
		}
		b.Write(compact(v))
		if i+1 < len(vectors) {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]}\n")
	return b.Bytes()
}

// A recipe builds an input from repeated pieces, so that huge ones stay short.
type recipe []piece

type piece struct {
	data  string
	times int
}

func lit(s string) recipe { return recipe{{s, 1}} }

func (r recipe) then(s string) recipe { return append(r[:len(r):len(r)], piece{s, 1}) }

func (r recipe) repeat(s string, times int) recipe {
	return append(r[:len(r):len(r)], piece{s, times})
}

func (r recipe) bytes() []byte {
	var b bytes.Buffer
	for _, p := range r {
		b.WriteString(strings.Repeat(p.data, p.times))
	}
	return b.Bytes()
}

func (p piece) MarshalJSON() ([]byte, error) {
	plain := utf8.ValidString(p.data) && !strings.Contains(p.data, "\x00")
	switch {
	case !plain:
		return compact(vector{{"b64", base64.StdEncoding.EncodeToString([]byte(p.data))}, {"times", p.times}}), nil
	case p.times == 1:
		return compact(vector{{"text", p.data}}), nil
	default:
		return compact(vector{{"repeat", p.data}, {"times", p.times}}), nil
	}
}
