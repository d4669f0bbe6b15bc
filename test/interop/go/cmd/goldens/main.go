// Command goldens writes golden vectors: inputs, and what the real Kubernetes
// libraries make of them. Herald's own tests replay the vectors, so parity is
// proven on machines without Go, and a rerun shows when upstream moved.
//
// The output is a pure function of the pinned library versions. No vector may
// depend on the clock, on map order or on a random source.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// subjects maps a golden file's base name to the function that fills it.
var subjects = []struct {
	file string
	make func() []vector
}{
	{"encode", encodeVectors},
	{"decode_json", decodeJSONVectors},
	{"decode_protobuf", decodeProtobufVectors},
	{"time", timeVectors},
	{"lists", listVectors},
	{"watch", watchVectors},
	{"status", statusVectors},
	{"table", tableVectors},
	{"validation", validationVectors},
	{"names", nameVectors},
	{"references", referenceVectors},
	{"field_selectors", fieldSelectorVectors},
	{"label_selectors", labelSelectorVectors},
	{"patches", patchVectors},
	{"two_way", twoWayVectors},
	{"yaml", yamlVectors},
	{"correlate", correlateVectors},
	{"pipeline", pipelineVectors},
}

func main() {
	out := flag.String("out", "", "folder to write to; it must exist")
	only := flag.String("only", "", "write only this subject")
	flag.Parse()
	if *out == "" || flag.NArg() != 0 {
		flag.Usage()
		os.Exit(2)
	}
	// The libraries log what they refuse. Here every refusal is wanted.
	klog.SetLogger(logr.Discard())

	source := sourceVersions()
	total := 0
	for _, s := range subjects {
		if *only != "" && *only != s.file {
			continue
		}
		vectors := s.make()
		total += len(vectors)
		path := filepath.Join(*out, s.file+".json")
		must(os.WriteFile(path, document(source, vectors), 0o644))
		fmt.Printf("%6d  %s\n", len(vectors), s.file+".json")
	}
	fmt.Printf("%6d  vectors in all\n", total)
}

// sourceVersions names what the vectors came from, as it was linked in rather
// than as somebody remembered it.
func sourceVersions() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		panic("built without module information")
	}
	versions := map[string]string{}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		versions[m.Path] = m.Version
	}
	return fmt.Sprintf("k8s.io/client-go %s, k8s.io/kubernetes %s",
		versions["k8s.io/client-go"], versions["k8s.io/kubernetes"])
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func must1[T any](v T, err error) T {
	must(err)
	return v
}
