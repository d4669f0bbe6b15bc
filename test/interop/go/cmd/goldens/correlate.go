package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

// correlateVectors are scenarios: what recorders say over time, and what
// client-go's two ways to merge repeats make of it.
//
// Neither way is quite deterministic, so the scenarios keep to what is: a full
// group of similar events forgets a random message, hence none of its messages
// is ever repeated; and what several series write at one instant comes in
// random order, hence it is sorted. Each scenario runs three times to prove it.
func correlateVectors() []vector {
	var out []vector
	for _, s := range append(countScenarios(), randomCountScenarios()...) {
		out = append(out, thrice(s.name, s.run))
	}
	for _, s := range append(seriesScenarios(), randomSeriesScenarios()...) {
		out = append(out, thrice(s.name, s.run))
	}
	return out
}

func thrice(name string, run func() vector) vector {
	v := run()
	text := compact(v)
	for range 2 {
		again := compact(run())
		if bytes.Equal(text, again) {
			continue
		}
		same := 0
		for same < min(len(text), len(again)) && text[same] == again[same] {
			same++
		}
		from := max(0, same-100)
		panic(fmt.Sprintf("%s is not deterministic:\n%.300s\n%.300s", name, text[from:], again[from:]))
	}
	return v
}

// The count correlator (tools/record).

// Not a whole second, so that names and borders show the nanoseconds.
var countStart = time.Date(2026, 11, 15, 19, 0, 0, 123456789, time.UTC)

// A standingClock is a clock.PassiveClock that is told the time.
type standingClock struct{ now time.Time }

func (c *standingClock) Now() time.Time                  { return c.now }
func (c *standingClock) Since(t time.Time) time.Duration { return c.now.Sub(t) }

// A serverWord says what the server made of the event it was sent; unset
// members are as they were sent.
type serverWord struct {
	name  string
	rv    string
	count int32
}

func (w *serverWord) vector() vector {
	v := vector{{"rv", w.rv}}
	if w.name != "" {
		v = v.with("name", w.name)
	}
	if w.count != 0 {
		v = v.with("count", w.count)
	}
	return v
}

type countStep struct {
	advance time.Duration
	event   corev1.Event
	answer  *serverWord // nil: the write failed, nothing is learned
}

type countScenario struct {
	name    string
	options record.CorrelatorOptions
	// By name, because the replaying side needs a twin of each.
	keyFunc, messageFunc, spamFunc string
	steps                          []countStep
	now                            time.Duration // sum of the steps' advances
	made                           int
}

var keyFuncs = map[string]record.EventAggregatorKeyFunc{
	"by-kind": func(e *corev1.Event) (string, string) { return e.InvolvedObject.Kind + e.Reason, e.InvolvedObject.Name },
	"all-one": func(e *corev1.Event) (string, string) { return "", e.Message },
}

var messageFuncs = map[string]record.EventAggregatorMessageFunc{
	"reason": func(e *corev1.Event) string { return "<many " + e.Reason + ">" },
	"empty":  func(*corev1.Event) string { return "" },
}

var spamFuncs = map[string]record.EventSpamKeyFunc{
	"reason": func(e *corev1.Event) string { return e.InvolvedObject.Name + e.Reason },
	// What it is given: the event after it was counted and combined.
	"count-parity": func(e *corev1.Event) string { return fmt.Sprint(e.Count%2) + e.Message },
}

func (s *countScenario) correlatorOptions() record.CorrelatorOptions {
	o := s.options
	if s.keyFunc != "" {
		o.KeyFunc = keyFuncs[s.keyFunc]
	}
	if s.messageFunc != "" {
		o.MessageFunc = messageFuncs[s.messageFunc]
	}
	if s.spamFunc != "" {
		o.SpamKeyFunc = spamFuncs[s.spamFunc]
	}
	return o
}

func (s *countScenario) run() vector {
	clock := &standingClock{countStart}
	o := s.correlatorOptions()
	o.Clock = clock
	correlator := record.NewEventCorrelatorWithOptions(o)

	var steps []vector
	for i := range s.steps {
		step := &s.steps[i]
		clock.now = clock.now.Add(step.advance)
		v := vector{}
		if step.advance != 0 {
			v = v.with("advance_ns", step.advance.Nanoseconds())
		}
		given := step.event.DeepCopy()
		v = inputOf(v, given, &given.Message)
		before := coreJSON(given)
		result := must1(correlator.EventCorrelate(given))
		if result.Skip {
			steps = append(steps, v.with("skip", true))
			continue
		}
		v = v.with("verb", map[bool]string{true: "patch", false: "create"}[result.Event.Count > 1])
		if after := coreJSON(result.Event); after != before {
			v = v.with("result", after)
		}
		if result.Patch != nil {
			v = v.text("patch", result.Patch)
		}
		if w := step.answer; w != nil {
			v = v.with("answer", w.vector())
			correlator.UpdateState(answered(result.Event, w))
		}
		steps = append(steps, v)
	}
	v := named(s.name).with("correlator", "count").with("start_ns", countStart.UnixNano())
	return v.with("options", s.optionsVector()).with("steps", steps)
}

func (s *countScenario) optionsVector() vector {
	v := vector{}
	add := func(key string, value any) {
		if !reflect.ValueOf(value).IsZero() {
			v = v.with(key, value)
		}
	}
	add("cache_entries", s.options.LRUCacheSize)
	add("spam_burst", s.options.BurstSize)
	add("spam_qps", s.options.QPS)
	add("aggregate_after", s.options.MaxEvents)
	add("aggregate_within", s.options.MaxIntervalInSeconds)
	add("aggregate_key", s.keyFunc)
	add("aggregate_message", s.messageFunc)
	add("spam_key", s.spamFunc)
	return v
}

func answered(sent *corev1.Event, w *serverWord) *corev1.Event {
	e := sent.DeepCopy()
	e.ResourceVersion = w.rv
	if w.name != "" {
		e.Name = w.name
	}
	if w.count != 0 {
		e.Count = w.count
	}
	return e
}

// inputOf adds an event without its empty members. Text that JSON cannot carry
// goes beside it.
func inputOf(v vector, event any, text *string) vector {
	var odd string
	if !utf8.ValidString(*text) {
		odd = *text
		*text = ""
	}
	var members map[string]any
	must(json.Unmarshal(must1(json.Marshal(event)), &members))
	v = v.with("event", json.RawMessage(compact(withoutEmpty(members))))
	if odd != "" {
		v = v.with("message_b64", base64.StdEncoding.EncodeToString([]byte(odd)))
		*text = odd
	}
	return v
}

func withoutEmpty(members map[string]any) map[string]any {
	for key, value := range members {
		if inner, ok := value.(map[string]any); ok {
			members[key] = withoutEmpty(inner)
		}
		if value == nil || value == "" || reflect.DeepEqual(members[key], map[string]any{}) {
			delete(members, key)
		}
	}
	return members
}

func coreJSON(e *corev1.Event) string {
	named := *e
	named.TypeMeta = metav1.TypeMeta{Kind: "Event", APIVersion: "v1"}
	return string(must1(json.Marshal(&named)))
}

// at adds an event that is recorded `advance` later than the one before.
func (s *countScenario) at(advance time.Duration, change ...func(*corev1.Event)) *countScenario {
	s.now += advance
	s.made++
	now := metav1.NewTime(countStart.Add(s.now).Truncate(time.Second))
	e := corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns"},
		InvolvedObject: corev1.ObjectReference{
			Kind: "Pod", Namespace: "ns", Name: "web", UID: "u1", APIVersion: "v1"},
		Reason: "BackOff", Message: "m", Type: "Normal",
		Source:         corev1.EventSource{Component: "kubelet", Host: "n1"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		ReportingController: "kubelet", ReportingInstance: "n1",
	}
	for _, c := range change {
		c(&e)
	}
	if e.Name == "" {
		e.Name = fmt.Sprintf("%s.%x", e.InvolvedObject.Name, s.made)
	}
	s.steps = append(s.steps, countStep{advance: advance, event: e, answer: &serverWord{rv: fmt.Sprint(s.made)}})
	return s
}

// word replaces what the server says to the last event.
func (s *countScenario) word(w *serverWord) *countScenario {
	s.steps[len(s.steps)-1].answer = w
	return s
}

func (s *countScenario) times(n int, advance time.Duration, change ...func(*corev1.Event)) *countScenario {
	for range n {
		s.at(advance, change...)
	}
	return s
}

// similar adds n events with messages that nobody used before.
func (s *countScenario) similar(n int, advance time.Duration, change ...func(*corev1.Event)) *countScenario {
	for range n {
		s.at(advance, append(slices.Clone(change), saying(fmt.Sprintf("similar %d", s.made)))...)
	}
	return s
}

func saying(text string) func(*corev1.Event)  { return func(e *corev1.Event) { e.Message = text } }
func because(text string) func(*corev1.Event) { return func(e *corev1.Event) { e.Reason = text } }
func about(name string) func(*corev1.Event) {
	return func(e *corev1.Event) { e.InvolvedObject.Name = name }
}

func countScenarios() []*countScenario {
	var out []*countScenario
	scenario := func(name string) *countScenario {
		s := &countScenario{name: name}
		out = append(out, s)
		return s
	}
	with := func(name string, o record.CorrelatorOptions) *countScenario {
		s := scenario(name)
		s.options = o
		return s
	}
	const second, minute = time.Second, time.Minute
	open := record.CorrelatorOptions{BurstSize: 1000}

	scenario("one-event").at(0)
	scenario("counted-twice").at(0).at(second)
	scenario("counted-five-times").times(5, second)
	scenario("never-answered").at(0).word(nil).at(second).word(nil).at(second).word(nil)
	scenario("each-reason-for-itself").at(0).at(0, because("Killing")).at(second).at(0, because("Killing"))
	scenario("warning-and-normal").at(0).at(0, func(e *corev1.Event) { e.Type = "Warning" }).at(second)
	scenario("uid-differs").at(0).at(0, func(e *corev1.Event) { e.InvolvedObject.UID = "u2" }).at(second)
	scenario("field-path-differs").
		at(0, func(e *corev1.Event) { e.InvolvedObject.FieldPath = "spec.containers{a}" }).
		at(0, func(e *corev1.Event) { e.InvolvedObject.FieldPath = "spec.containers{b}" }).
		at(second, func(e *corev1.Event) { e.InvolvedObject.FieldPath = "spec.containers{a}" })
	scenario("resource-version-of-the-object-differs").
		at(0, func(e *corev1.Event) { e.InvolvedObject.ResourceVersion = "1" }).
		at(second, func(e *corev1.Event) { e.InvolvedObject.ResourceVersion = "2" })
	scenario("host-differs").at(0).at(0, func(e *corev1.Event) { e.Source.Host = "n2" }).at(second)
	scenario("reporting-differs").at(0).
		at(0, func(e *corev1.Event) { e.ReportingController, e.ReportingInstance = "x", "y" }).at(second)
	scenario("namespace-differs").at(0).
		at(0, func(e *corev1.Event) { e.InvolvedObject.Namespace, e.Namespace = "other", "other" }).at(second)
	scenario("cluster-scoped").at(0, func(e *corev1.Event) {
		e.InvolvedObject = corev1.ObjectReference{Kind: "Node", Name: "n1", UID: "n1", APIVersion: "v1"}
		e.Namespace = "default"
	}).at(second, func(e *corev1.Event) {
		e.InvolvedObject = corev1.ObjectReference{Kind: "Node", Name: "n1", UID: "n1", APIVersion: "v1"}
		e.Namespace = "default"
	})
	scenario("annotated").at(0, func(e *corev1.Event) { e.Annotations = map[string]string{"a": "1"} }).
		at(second, func(e *corev1.Event) { e.Annotations = map[string]string{"a": "2"} })
	scenario("new-style-members").times(3, second, func(e *corev1.Event) {
		e.EventTime = metav1.NewMicroTime(countStart.Truncate(time.Microsecond))
		e.Action = "Pulling"
		e.Related = &corev1.ObjectReference{Kind: "Node", Name: "n1"}
		e.Series = &corev1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(countStart.Truncate(time.Second))}
	})

	// What the server says.
	scenario("server-renames").at(0).word(&serverWord{name: "other.1", rv: "5"}).at(second).word(&serverWord{name: "third.1", rv: "6"}).at(second)
	scenario("server-counts-otherwise").at(0).word(&serverWord{rv: "5", count: 40}).at(second).at(second).word(&serverWord{rv: "9", count: 2}).at(second)
	scenario("server-counts-below-zero").at(0).word(&serverWord{rv: "5", count: -3}).times(4, second)
	scenario("server-counts-to-the-end").at(0).word(&serverWord{rv: "5", count: 2147483646}).at(second).at(second).at(second)
	scenario("answers-get-lost").at(0).at(second).word(nil).at(second).at(second).word(nil).at(second)
	scenario("recorded-with-count-seven").at(0, func(e *corev1.Event) { e.Count = 7 }).at(second)
	scenario("recorded-with-count-zero").at(0, func(e *corev1.Event) { e.Count = 0 }).at(second, func(e *corev1.Event) { e.Count = 0 })
	scenario("recorded-with-a-name-and-version").at(0).at(second, func(e *corev1.Event) {
		e.Name, e.ResourceVersion = "mine", "77"
	})

	// What the patch holds.
	for i, text := range []string{"", "<a href=\"x\">&</a>", "snow ☃ and 😀", "line\u2028separator\u2029s", "tab\tnew\nline\\ \"q\" \x01\x7f", "\ufffd is valid", "ünïcödé"} {
		scenario(fmt.Sprintf("patch-of-text-%d", i+1)).times(2, second, saying(text))
	}
	scenario("patch-of-nul").times(2, second, saying("a\x00b"))
	scenario("patch-of-invalid-utf8").times(2, second, saying("bad \xff\xfe and \xe2\x98 cut"))
	scenario("patch-without-time").times(2, second, func(e *corev1.Event) { e.LastTimestamp = metav1.Time{} })
	scenario("patch-at-the-epoch").times(2, second, func(e *corev1.Event) { e.LastTimestamp = metav1.Unix(0, 0) })
	scenario("patch-of-nothing").times(2, second, func(e *corev1.Event) { e.LastTimestamp = metav1.Unix(0, 0); e.Message = "" })
	scenario("patch-before-the-epoch").times(2, second, func(e *corev1.Event) { e.LastTimestamp = metav1.Unix(-1, 0) })

	// Similar events.
	scenario("nine-similar").similar(9, second)
	scenario("ten-similar").similar(10, second)
	scenario("twelve-similar").similar(12, second)
	scenario("nine-similar-then-repeats").similar(9, second).at(second, saying("similar 3")).at(second, saying("similar 3"))
	scenario("similar-at-the-border").similar(9, 600*second).similar(2, 600*second)
	scenario("similar-beyond-the-border").similar(9, second).similar(10, 600*second+1).similar(1, second)
	scenario("similar-resumed-in-time").similar(11, second).similar(1, 600*second).similar(1, 600*second+1).similar(9, second)
	scenario("similar-answers-lost").similar(9, second).similar(1, second).word(nil).similar(1, second).word(nil).similar(1, second).word(nil)
	scenario("similar-renamed-by-server").similar(10, second).word(&serverWord{name: "renamed", rv: "50"}).similar(2, second)
	scenario("similar-annotated").similar(11, second, func(e *corev1.Event) {
		e.Annotations = map[string]string{"a": "1"}
		e.InvolvedObject.FieldPath = "spec.containers{a}"
		e.Related = &corev1.ObjectReference{Kind: "Node", Name: "n1"}
		e.Action = "x"
	})
	scenario("similar-of-two-objects").similar(5, second).similar(5, second, about("db")).similar(5, second).similar(5, second, about("db"))
	scenario("similar-invalid-name").similar(11, second, about("2001:DB8::1"))
	// What a group has in common: all but the message and the field path.
	s := with("similar-in-other-groups", record.CorrelatorOptions{MaxEvents: 2}).similar(1, second)
	for _, change := range []func(*corev1.Event){
		func(e *corev1.Event) { e.Source.Component = "other" },
		func(e *corev1.Event) { e.Source.Host = "other" },
		func(e *corev1.Event) { e.InvolvedObject.Kind = "other" },
		func(e *corev1.Event) { e.InvolvedObject.Namespace = "other" },
		func(e *corev1.Event) { e.InvolvedObject.Name = "other" },
		func(e *corev1.Event) { e.InvolvedObject.UID = "other" },
		func(e *corev1.Event) { e.InvolvedObject.APIVersion = "other" },
		func(e *corev1.Event) { e.Type = "Warning" },
		func(e *corev1.Event) { e.Reason = "other" },
		func(e *corev1.Event) { e.ReportingController = "other" },
		func(e *corev1.Event) { e.ReportingInstance = "other" },
		func(e *corev1.Event) { e.InvolvedObject.FieldPath = "other" },
	} {
		s.similar(1, second, change)
	}
	with("similar-after-two", record.CorrelatorOptions{MaxEvents: 2}).similar(4, second)
	with("similar-after-one", record.CorrelatorOptions{MaxEvents: 1}).times(4, second)
	with("similar-within-a-minute", record.CorrelatorOptions{MaxEvents: 3, MaxIntervalInSeconds: 60}).
		similar(2, minute).similar(1, minute+1).similar(2, minute).similar(1, 2*minute)

	// The filter.
	scenario("burst-spent").times(28, second)
	scenario("burst-spent-by-reasons").at(0).times(13, 0, because("A")).times(13, 0, because("B")).at(0)
	with("burst-is-per-type", record.CorrelatorOptions{BurstSize: 1}).at(0).at(0, func(e *corev1.Event) { e.Type = "Warning" }).at(0)
	with("filtered-are-counted", record.CorrelatorOptions{BurstSize: 2}).times(6, second).at(300 * second)
	with("refill-at-the-border", record.CorrelatorOptions{BurstSize: 1}).at(0).
		at(299999992734).at(1).at(1).at(299999992735).at(300 * second).at(299 * second)
	with("refill-never-above-burst", record.CorrelatorOptions{BurstSize: 3}).times(4, 0).at(time.Hour).times(4, 0)
	with("fast-refill", record.CorrelatorOptions{BurstSize: 2, QPS: 1}).times(3, 0).at(second - 2).at(1).at(1).at(second / 2).at(second / 2).at(second)
	with("odd-refill", record.CorrelatorOptions{BurstSize: 1, QPS: 0.3}).times(12, 1111111111)
	with("filtered-similar", record.CorrelatorOptions{BurstSize: 11}).similar(14, second).at(300*second, saying("late"))

	// Caches that overflow.
	small := record.CorrelatorOptions{LRUCacheSize: 2}
	with("evicted", small).at(0).at(0, about("b")).at(0, about("c")).at(second).at(0, about("c"))
	with("used-again-so-kept", small).at(0).at(0, about("b")).at(0).at(0, about("c")).at(0).at(0, about("b"))
	with("answers-evict", small).at(0).at(0, about("b")).word(&serverWord{name: "z", rv: "3"}).at(0).at(0, about("b"))
	with("similar-evict-with-their-answers", record.CorrelatorOptions{LRUCacheSize: 3, MaxEvents: 2}).similar(3, second).at(second, about("b")).similar(2, second)
	with("bucket-evicted", record.CorrelatorOptions{LRUCacheSize: 1, BurstSize: 1}).at(0).at(0).at(0, about("b")).at(0)
	with("cache-of-one", record.CorrelatorOptions{LRUCacheSize: 1}).at(0).at(0).at(0, saying("n")).at(0)

	// Keys without separators run into one another.
	split := func(component, host string) func(*corev1.Event) {
		return func(e *corev1.Event) { e.Source.Component, e.Source.Host = component, host }
	}
	scenario("component-and-host-collide").at(0, split("ab", "c")).at(second, split("a", "bc"))
	scenario("reason-and-message-collide").at(0, because("Back"), saying("Off again")).at(second, because("BackOff"), saying(" again"))
	scenario("name-and-field-path-collide").
		at(0, func(e *corev1.Event) { e.InvolvedObject.Name, e.InvolvedObject.FieldPath = "web", "x" }).
		at(second, func(e *corev1.Event) { e.InvolvedObject.Name, e.InvolvedObject.FieldPath = "webx", "" })
	scenario("filter-keys-collide").times(25, 0, split("ab", "c")).at(0, split("a", "bc"), saying("other"))
	bare := func(e *corev1.Event) { e.ReportingController, e.ReportingInstance = "", "" }
	with("group-and-event-collide", record.CorrelatorOptions{MaxEvents: 2}).
		at(0, bare, saying("")).at(second, bare, saying("x")).at(second, bare, saying("y")).at(700*second, bare, saying(""))

	// Functions of the caller.
	s = with("key-by-kind", open)
	s.keyFunc = "by-kind"
	for i := range 13 {
		s.at(second, about(fmt.Sprintf("o%d", i)))
	}
	s = with("one-group-for-all", record.CorrelatorOptions{MaxEvents: 3})
	s.keyFunc = "all-one"
	s.similar(2, second).similar(2, second, because("R")).similar(1, second, about("db"))
	s = with("message-of-the-caller", record.CorrelatorOptions{MaxEvents: 3})
	s.messageFunc = "reason"
	s.similar(5, second)
	s = with("message-left-empty", record.CorrelatorOptions{MaxEvents: 3})
	s.messageFunc = "empty"
	s.similar(5, second)
	s = with("filter-by-reason", record.CorrelatorOptions{BurstSize: 1})
	s.spamFunc = "reason"
	s.at(0).at(0, because("R")).at(0).at(0, because("R"), saying("n"))
	s = with("filter-sees-the-count", record.CorrelatorOptions{BurstSize: 2, MaxEvents: 4})
	s.spamFunc = "count-parity"
	s.times(6, second).similar(6, second)
	return out
}

func randomCountScenarios() []*countScenario {
	var out []*countScenario
	for seed := range int64(24) {
		r := rand.New(rand.NewSource(seed + 1))
		s := &countScenario{name: fmt.Sprintf("random-%d", seed+1)}
		if seed > 0 {
			pick := func(values ...int) int { return values[r.Intn(len(values))] }
			s.options = record.CorrelatorOptions{
				LRUCacheSize:         pick(0, 0, 0, 1, 2, 3, 8),
				BurstSize:            pick(0, 1, 3, 10, 10),
				QPS:                  float32(pick(0, 0, 1, 7)) / 10,
				MaxEvents:            pick(0, 2, 3, 5),
				MaxIntervalInSeconds: pick(0, 1, 60, 300),
			}
			s.keyFunc = []string{"", "", "", "by-kind", "all-one"}[r.Intn(5)]
			s.messageFunc = []string{"", "", "reason"}[r.Intn(3)]
			s.spamFunc = []string{"", "", "reason", "count-parity"}[r.Intn(4)]
		}
		addRandomSteps(s, r, 32)
		out = append(out, s)
	}
	return out
}

func addRandomSteps(s *countScenario, r *rand.Rand, n int) {
	key := record.EventAggregatorByReasonFunc
	if s.keyFunc != "" {
		key = keyFuncs[s.keyFunc]
	}
	limit, within := s.options.MaxEvents, s.options.MaxIntervalInSeconds
	if limit == 0 {
		limit = 10
	}
	if within == 0 {
		within = 600
	}
	border := time.Duration(within) * time.Second
	// A group that once was full has forgotten a message, nobody knows which.
	type group struct {
		locals map[string]bool
		last   time.Duration
		full   bool
	}
	groups := map[string]*group{}

	gaps := []time.Duration{0, 0, 0, 0, 0, 1, time.Second, 10 * time.Second, border - 1, border, border + 1, 300 * time.Second}
	objects := []string{"web", "web", "web", "db"}
	texts := []string{"m", "m", "m", "n", "☃ <b>", "a\"b"}
	for range n {
		gap := gaps[r.Intn(len(gaps))]
		var change []func(*corev1.Event)
		change = append(change, about(objects[r.Intn(len(objects))]), saying(texts[r.Intn(len(texts))]))
		switch r.Intn(12) {
		case 0:
			change = append(change, because("Killing"))
		case 1:
			change = append(change, func(e *corev1.Event) { e.Type = "Warning" })
		case 2:
			change = append(change, func(e *corev1.Event) { e.InvolvedObject.FieldPath = "spec.containers{a}" })
		case 3:
			change = append(change, func(e *corev1.Event) { e.InvolvedObject.UID = "u2" })
		case 4:
			change = append(change, func(e *corev1.Event) { e.Source.Component, e.Source.Host = "kubeletn", "1" })
		case 5:
			change = append(change, func(e *corev1.Event) { e.Annotations = map[string]string{"k": "v"} })
		}
		if r.Intn(4) == 0 {
			change = append(change, saying(fmt.Sprintf("fresh %d", s.made)))
		}
		s.at(gap, change...)
		step := &s.steps[len(s.steps)-1]

		groupKey, local := key(&step.event)
		g := groups[groupKey]
		if g == nil || s.now-g.last > border {
			g = &group{locals: map[string]bool{}}
			groups[groupKey] = g
		}
		if g.full {
			// Only what was never said before is sure to be new to it.
			fresh := fmt.Sprintf("fresh %d", s.made)
			step.event.Message = fresh
			if s.keyFunc == "by-kind" {
				step.event.InvolvedObject.Name = fresh
			}
			_, local = key(&step.event)
		}
		g.locals[local] = true
		g.last = s.now
		g.full = g.full || len(g.locals) >= limit

		switch r.Intn(8) {
		case 0:
			step.answer = nil
		case 1:
			step.answer.name = fmt.Sprintf("server.%d", s.made)
		case 2:
			step.answer.count = int32(r.Intn(50))
		}
	}
}

// The series correlator (tools/events). It reads the machine's clock, so it runs
// in a bubble where time is made up; its timers are then exact. The bubble's
// time begins at 2000-01-01T00:00:00Z.

type seriesInput struct {
	at    time.Duration // since recording to the sink started
	event eventsv1.Event
}

type seriesScenario struct {
	name   string
	until  time.Duration
	inputs []seriesInput
	// What the server adds to the count and to the time of a series that it is told.
	adds  int32
	shift time.Duration
}

func (s *seriesScenario) run() vector {
	var requests []vector
	// A T is all that the bubble asks for, and nothing here reports to it.
	synctest.Test(new(testing.T), func(*testing.T) { requests = s.inBubble() })
	if len(requests) == 0 {
		panic(s.name + " was not run")
	}
	var inputs []vector
	for i := range s.inputs {
		in := &s.inputs[i]
		inputs = append(inputs, inputOf(vector{{"at_ns", in.at.Nanoseconds()}}, &in.event, &in.event.Note))
	}
	v := named(s.name).with("correlator", "series").with("start_ns", seriesStart.UnixNano())
	if s.adds != 0 || s.shift != 0 {
		v = v.with("server_adds", s.adds).with("server_shift_s", int(s.shift.Seconds()))
	}
	return v.with("until_ns", s.until.Nanoseconds()).with("inputs", inputs).with("requests", requests)
}

var seriesStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *seriesScenario) inBubble() []vector {
	if !time.Now().Equal(seriesStart) {
		panic("the bubble begins at another time")
	}
	sink := &seriesSink{adds: s.adds, shift: s.shift, versions: map[string]int{}}
	broadcaster := events.NewBroadcaster(sink)
	ctx, cancel := context.WithCancel(context.Background())
	must(broadcaster.StartRecordingToSinkWithContext(ctx))
	recorder := broadcaster.(interface {
		Action(watch.EventType, runtime.Object) error
	})
	synctest.Wait()
	for i := range s.inputs {
		in := &s.inputs[i]
		time.Sleep(time.Until(seriesStart.Add(in.at)))
		synctest.Wait()
		must(recorder.Action(watch.Added, in.event.DeepCopy()))
		synctest.Wait()
	}
	time.Sleep(time.Until(seriesStart.Add(s.until)))
	synctest.Wait()
	cancel()
	broadcaster.Shutdown()
	synctest.Wait()
	return sink.sorted()
}

// A seriesSink keeps what it is told and answers as a server would.
type seriesSink struct {
	adds     int32
	shift    time.Duration
	mu       sync.Mutex
	versions map[string]int // by name
	requests []seriesRequest
}

type seriesRequest struct {
	at    time.Duration
	order string
	v     vector
}

func (k *seriesSink) take(verb string, e *eventsv1.Event, patch []byte) (*eventsv1.Event, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sent := *e
	sent.TypeMeta = metav1.TypeMeta{Kind: "Event", APIVersion: "events.k8s.io/v1"}
	text := must1(json.Marshal(&sent))
	at := time.Since(seriesStart)
	k.versions[e.Name]++
	answer := eventsv1.Event{}
	must(json.Unmarshal(text, &answer))
	answer.ResourceVersion = fmt.Sprint(k.versions[e.Name])
	if answer.Series != nil {
		answer.Series.Count += k.adds
		answer.Series.LastObservedTime.Time = answer.Series.LastObservedTime.Add(k.shift)
	}
	v := vector{{"at_ns", at.Nanoseconds()}, {"verb", verb}, {"event", string(text)}}
	if patch != nil {
		v = v.text("patch", patch)
	}
	v = v.with("rv", answer.ResourceVersion)
	k.requests = append(k.requests, seriesRequest{at, e.Name, v})
	return &answer, nil
}

func (k *seriesSink) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	return k.take("create", e, nil)
}
func (k *seriesSink) Update(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	panic("never used")
}
func (k *seriesSink) Patch(_ context.Context, e *eventsv1.Event, patch []byte) (*eventsv1.Event, error) {
	return k.take("patch", e, patch)
}

func (k *seriesSink) sorted() []vector {
	slices.SortStableFunc(k.requests, func(a, b seriesRequest) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order))
	})
	out := []vector{}
	for _, r := range k.requests {
		out = append(out, r.v)
	}
	return out
}

func (s *seriesScenario) at(at time.Duration, change ...func(*eventsv1.Event)) *seriesScenario {
	e := eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: "ns"},
		EventTime:           metav1.NewMicroTime(seriesStart.Add(at).Truncate(time.Microsecond)),
		ReportingController: "ctl", ReportingInstance: "ctl-1", Action: "Pulling", Reason: "Pulled",
		Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "web", UID: "u1", APIVersion: "v1"},
		Note:      "note", Type: "Normal",
	}
	for _, c := range change {
		c(&e)
	}
	if e.Name == "" {
		e.Name = fmt.Sprintf("%s.%d", e.Regarding.Name, len(s.inputs)+1)
	}
	if n := len(s.inputs); n > 0 && s.inputs[n-1].at > at {
		panic(s.name + " goes back in time")
	}
	s.inputs = append(s.inputs, seriesInput{at, e})
	return s
}

func (s *seriesScenario) to(until time.Duration) { s.until = until }

func seriesScenarios() []*seriesScenario {
	var out []*seriesScenario
	scenario := func(name string) *seriesScenario {
		s := &seriesScenario{name: "series-" + name}
		out = append(out, s)
		return s
	}
	const second, minute = time.Second, time.Minute
	scenario("one-event").at(second).to(minute)
	scenario("two").at(second).at(2*second + 345678901).to(minute)
	scenario("five").at(1*second, nil...).at(2 * second).at(3 * second).at(4 * second).at(5 * second).to(minute)
	scenario("finished").at(1 * second).at(2 * second).at(3 * second).to(20 * minute)
	scenario("finished-then-anew").at(1 * second).at(2 * second).at(13 * minute).at(13*minute + second).to(25 * minute)
	scenario("singleton-leaves").at(1 * second).at(12*minute + second).to(13 * minute)
	scenario("singleton-stays-to-the-tick").at(1 * second).at(11*minute + 59*second).to(13 * minute)
	scenario("singleton-old-when-recorded").at(5*minute, func(e *eventsv1.Event) {
		e.EventTime = metav1.NewMicroTime(seriesStart.Add(-10 * minute))
	}).at(7 * minute).to(8 * minute)
	scenario("silence-of-exactly-six-minutes").at(5 * minute).at(12*minute + 1).at(18 * minute).to(19 * minute)
	s := scenario("refreshed")
	for i := range 18 {
		s.at(time.Duration(i+1)*2*minute - second)
	}
	s.to(50 * minute)
	s = scenario("refreshed-twice")
	for i := range 14 {
		s.at(time.Duration(i+1)*5*minute - second)
	}
	s.to(90 * minute)
	s = scenario("server-counts-otherwise")
	s.adds = 100
	for i := range 8 {
		s.at(time.Duration(i+1)*5*minute - second)
	}
	s.to(60 * minute)
	s = scenario("server-tells-another-time")
	s.shift = minute
	for i := range 6 {
		s.at(time.Duration(i+1)*5*minute - second)
	}
	s.to(60 * minute)
	for i, change := range []func(*eventsv1.Event){
		func(e *eventsv1.Event) { e.Type = "Warning" },
		func(e *eventsv1.Event) { e.Action = "Other" },
		func(e *eventsv1.Event) { e.Reason = "Other" },
		func(e *eventsv1.Event) { e.ReportingController = "other" },
		func(e *eventsv1.Event) { e.ReportingInstance = "other" },
		func(e *eventsv1.Event) { e.Regarding.ResourceVersion = "2" },
		func(e *eventsv1.Event) { e.Regarding.FieldPath = "spec.containers{a}" },
		func(e *eventsv1.Event) { e.Regarding.UID = "u2" },
		func(e *eventsv1.Event) { e.Related = &corev1.ObjectReference{Kind: "Node", Name: "n1"} },
		func(e *eventsv1.Event) { e.Related = &corev1.ObjectReference{} },
		func(e *eventsv1.Event) { e.Note = "other ☃ <b>" },
		func(e *eventsv1.Event) { e.Annotations = map[string]string{"a": "1"} },
		func(e *eventsv1.Event) { e.Namespace = "other" },
		func(e *eventsv1.Event) { e.Action, e.Reason = "PullingP", "ulled" },
	} {
		scenario(fmt.Sprintf("differs-%d", i+1)).at(second).at(2*second, change).at(3*second).at(4*second, change).to(minute)
	}
	own := func(count int32, at time.Time) func(*eventsv1.Event) {
		return func(e *eventsv1.Event) {
			e.Series = &eventsv1.EventSeries{Count: count, LastObservedTime: metav1.NewMicroTime(at)}
		}
	}
	scenario("comes-with-a-series").at(second, own(2, seriesStart)).at(2 * second).to(20 * minute)
	scenario("repeat-comes-with-a-series").at(second).at(2*second, own(50, seriesStart)).at(3 * second).to(20 * minute)
	scenario("comes-with-an-empty-series").at(second, own(0, time.Time{})).at(20 * second).to(20 * minute)
	scenario("comes-with-an-old-series").at(5*minute, own(9, seriesStart.Add(-time.Hour))).at(7 * minute).to(9 * minute)
	return out
}

func randomSeriesScenarios() []*seriesScenario {
	var out []*seriesScenario
	for seed := range int64(8) {
		r := rand.New(rand.NewSource(1000 + seed))
		s := &seriesScenario{name: fmt.Sprintf("series-random-%d", seed+1)}
		regarding := func(name string) func(*eventsv1.Event) {
			return func(e *eventsv1.Event) { e.Regarding.Name = name }
		}
		names := []string{"a", "b", "c"}
		at := time.Duration(0)
		for at < 70*time.Minute {
			// No refresh and no end of a series may fall on the same instant:
			// which is first is left to chance. So all speak up before each half hour.
			next := at + time.Duration(r.Int63n(int64(4*time.Minute))) + 1
			half := (at/(30*time.Minute) + 1) * 30 * time.Minute
			if next > half-2*time.Minute && at < half-2*time.Minute {
				at = half - 2*time.Minute + 7
				for _, n := range names {
					s.at(at, regarding(n))
				}
				continue
			}
			at = next
			if at%time.Minute == 0 {
				at++
			}
			s.at(at, regarding(names[r.Intn(len(names))]))
		}
		s.to(89 * time.Minute)
		out = append(out, s)
	}
	return out
}
