package main

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"sort"
	"strings"
	"sync"
)

// wire notes the requests that went through it, without what changes from run
// to run.
type wire struct {
	mu    sync.Mutex
	lines []string
}

type transport struct {
	wire *wire
	next http.RoundTripper
}

func (w *wire) wrap(next http.RoundTripper) http.RoundTripper { return transport{w, next} }

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	line := request.Method + " " + plain(request.URL.Path)
	if query := plainQuery(request.URL.Query()); query != "" {
		line += "?" + query
	}
	if kind := request.Header.Get("Content-Type"); kind != "" {
		line += " " + kind
	}
	if err != nil {
		line += " -> error"
	} else {
		line += fmt.Sprintf(" -> %d %s", response.StatusCode, response.Header.Get("Content-Type"))
	}
	t.wire.mu.Lock()
	t.wire.lines = append(t.wire.lines, line)
	t.wire.mu.Unlock()
	return response, err
}

// print writes the requests, equal neighbours as one: how often a client asks
// again is a matter of time.
func (w *wire) print() {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := ""
	for _, line := range w.lines {
		if line != last {
			fmt.Printf("  > %s\n", line)
		}
		last = line
	}
}

func plainQuery(values url.Values) string {
	var parts []string
	for name, list := range values {
		for _, value := range list {
			switch name {
			case "timeout", "timeoutSeconds":
				value = "<time>" // Drawn at random by reflectors.
			case "resourceVersion":
				if value != "0" {
					value = "<rv>"
				}
			case "continue":
				value = "<continue>"
			case "fieldSelector":
				terms := strings.Split(value, ",") // In random order.
				sort.Strings(terms)
				value = strings.Join(terms, ",")
			}
			parts = append(parts, name+"="+value)
		}
	}
	sort.Strings(parts)
	return strings.Join(parts, "&")
}

var (
	nanoseconds = regexp.MustCompile(`\.[0-9a-f]{14,16}\b`)
	uuid        = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
)

// plain replaces the parts of names that recorders make of the time.
func plain(text string) string {
	return nanoseconds.ReplaceAllString(uuid.ReplaceAllString(text, "<uuid>"), ".<hex>")
}
