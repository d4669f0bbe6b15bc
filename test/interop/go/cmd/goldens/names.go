package main

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/client-go/tools/record/util"
)

func itoa(i int) string { return strconv.Itoa(i) }

// nameVectors has two kinds: "event" is the name a recorder gives, "generated"
// the rule by which the server completes a generateName.
func nameVectors() []vector {
	var out []vector
	add := func(label, ref string, nanos int64) {
		v := named(label).with("kind", "event").with("ref", ref).with("nanos", nanos)
		name := util.GenerateEventName(ref, nanos)
		// A name that does not start with the reference was replaced by a
		// random one.
		if expected := fmt.Sprintf("%s.%x", ref, nanos); name == expected {
			v = v.with("exact", name)
		} else {
			v = v.with("fallback", true).with("length", len(name))
		}
		out = append(out, v)
	}
	const now = 1731697200123456789
	for _, n := range []int64{0, 1, 15, 16, 255, now, 1<<63 - 1, -1, -now, -1 << 63} {
		add(fmt.Sprintf("nanos-%d", n), "web-0", n)
	}
	for _, ref := range []string{"", "a", "1", "web-0", "a.b.c", "a..b", "Web", "web_0", "web-", "-web", "web.", ".web", "a:b", "2001:db8::1", "a/b", "a b", "é", "a\u0000", "xn--bcher-kva", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 236), strings.Repeat("a", 237), strings.Repeat("a", 253), strings.Repeat("a.", 100), strings.Repeat("a", 63) + "." + strings.Repeat("b", 64)} {
		label := ref
		if len(ref) > 30 {
			label = fmt.Sprintf("%s-%d-bytes", ref[:2], len(ref))
		}
		add("reference-"+label, ref, now)
	}
	for _, base := range []string{"", "a", "web-", "UPPER.", strings.Repeat("a", 57), strings.Repeat("a", 58), strings.Repeat("a", 59), strings.Repeat("a", 63), strings.Repeat("a", 300), strings.Repeat("é", 29), strings.Repeat("é", 30), "a" + strings.Repeat("é", 29)} {
		out = append(out, generated(base))
	}
	return out
}

// generated draws often enough that every letter of the alphabet turns up.
func generated(base string) vector {
	letters := map[rune]bool{}
	kept := ""
	for range 4000 {
		name := names.SimpleNameGenerator.GenerateName(base)
		kept = name[:len(name)-5]
		for _, r := range name[len(name)-5:] {
			letters[r] = true
		}
	}
	var alphabet []string
	for r := range letters {
		alphabet = append(alphabet, string(r))
	}
	sort.Strings(alphabet)
	return vector{{"kind", "generated"}, {"base", base}}.text("prefix_kept", []byte(kept)).
		with("suffix_len", 5).with("alphabet", strings.Join(alphabet, ""))
}
