package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// pipelineVectors are scenarios for the whole way of an event: what a recorder
// is told and when, what the server answers, and what client-go makes of it:
// requests, retries, log lines, complaints.
//
// Each runs in a bubble where time is made up, so names, times and sleeps are
// exact. Where chance has a say in a sleep, the vector names its range; where it
// makes up a name, the name becomes <uuid n>, n being the order of appearance.
//
// The answers come either from a function in the place of the sink, or, where
// the form of requests is the point, from a server on loopback that the real
// typed client talks to. Retry-After is never sent over HTTP: below the recorder
// client-go's REST client would obey it, which is another matter.
func pipelineVectors() []vector {
	var out []vector
	for _, s := range append(pipeScenarios(), randomPipeScenarios()...) {
		out = append(out, thrice(s.name, s.run))
	}
	return out
}

// A pipeAnswer is what becomes of one request. The zero value means that the
// server does what it is asked.
type pipeAnswer struct {
	name  string // the server calls it otherwise
	count int32  // the server counts otherwise
	err   error  // the sink returns this instead
	// Over HTTP instead of the above; a code of -1 closes the connection.
	code        int
	contentType string
	body        string
}

func refuses(err *apierrors.StatusError) pipeAnswer { return pipeAnswer{err: err} }

var (
	eventsOf  = corev1.Resource("events")
	kindEvent = corev1.SchemeGroupVersion.WithKind("Event").GroupKind()

	expired       = refuses(apierrors.NewNotFound(eventsOf, "x"))
	alreadyExists = refuses(apierrors.NewAlreadyExists(eventsOf, "x"))
	conflict      = refuses(apierrors.NewConflict(eventsOf, "x", errors.New("the object has been modified")))
	invalid       = refuses(apierrors.NewInvalid(kindEvent, "x", nil))
	forbidden     = refuses(apierrors.NewForbidden(eventsOf, "x", errors.New("not yours")))
	terminating   = refuses(func() *apierrors.StatusError {
		e := apierrors.NewForbidden(eventsOf, "x", errors.New("unable to create new content in namespace ns because it is being terminated"))
		e.ErrStatus.Details.Causes = append(e.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: corev1.NamespaceTerminatingCause, Message: "namespace ns is being terminated", Field: "metadata.namespace"})
		return e
	}())
	unauthorized    = refuses(apierrors.NewUnauthorized("who are you?"))
	badRequest      = refuses(apierrors.NewBadRequest("the body is not an event"))
	tooLarge        = refuses(apierrors.NewRequestEntityTooLargeError("limit is 3145728"))
	tooMany         = refuses(apierrors.NewTooManyRequestsError("later"))
	tooManyForFive  = refuses(apierrors.NewTooManyRequests("later", 5))
	internalError   = refuses(apierrors.NewInternalError(errors.New("etcdserver: no leader")))
	unavailable     = refuses(apierrors.NewServiceUnavailable("starting"))
	serverTimeout   = refuses(apierrors.NewServerTimeout(eventsOf, "create", 2))
	gatewayTimeout  = refuses(apierrors.NewTimeoutError("the request took too long", 1))
	badGateway      = refuses(apierrors.NewGenericServerResponse(http.StatusBadGateway, "post", eventsOf, "x", "<html>", 0, true))
	unconstructable = pipeAnswer{err: &restclient.RequestConstructionError{Err: errors.New("no such verb")}}
	unexpected      = pipeAnswer{err: &apierrors.UnexpectedObjectError{Object: &corev1.Pod{}}}
	refused         = pipeAnswer{err: errors.New("dial tcp 127.0.0.1:443: connect: connection refused")}
	timedOut        = pipeAnswer{err: context.DeadlineExceeded}
)

func repeated(a pipeAnswer, times int) []pipeAnswer {
	var out []pipeAnswer
	for range times {
		out = append(out, a)
	}
	return out
}

// A pipeCall is one call of the recorder, or with `event` one of the
// broadcaster's Action.
type pipeCall struct {
	how                           string // "event", "eventf", "annotated"
	object                        corev1.ObjectReference
	pod                           *corev1.Pod // the object itself, instead of a reference
	related                       *corev1.ObjectReference
	kind, reason, action, message string
	annotations                   map[string]string
	event                         runtime.Object
	shutdown                      bool // not a call at all: the broadcaster is shut down
}

type pipeStep struct {
	advance time.Duration
	call    pipeCall
	answers []pipeAnswer
}

type pipeScenario struct {
	name   string
	events bool // tools/events instead of tools/record
	http   bool
	// What the client is told to write; empty: as it likes.
	contentType string
	options     record.CorrelatorOptions
	source      corev1.EventSource
	steps       []pipeStep
	settle      time.Duration // how long to look on after the last step
	// Answers to an event that is only counted are not kept for what is written next.
	forgets bool
	silent  bool // the vector tells nothing of the listeners, to stay small
}

// Eleven sleeps are the longest that one event can take.
const pipeSettle = 150 * time.Second

// What steps are about that do not say.
var usualObject = corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "web", UID: "u1", APIVersion: "v1"}

func (s *pipeScenario) at(advance time.Duration, change ...func(*pipeCall)) *pipeScenario {
	c := pipeCall{how: "event", kind: "Normal", reason: "Started", message: "started",
		object: usualObject}
	if s.events {
		c.how, c.action = "eventf", "Starting"
	}
	for _, f := range change {
		f(&c)
	}
	s.steps = append(s.steps, pipeStep{advance: advance, call: c})
	return s
}

func (s *pipeScenario) times(n int, advance time.Duration, change ...func(*pipeCall)) *pipeScenario {
	for range n {
		s.at(advance, change...)
	}
	return s
}

// answers queues answers when the last step is taken; once they are used up the
// server does what it is asked.
func (s *pipeScenario) answers(a ...pipeAnswer) *pipeScenario {
	last := &s.steps[len(s.steps)-1]
	last.answers = append(last.answers, a...)
	return s
}

func (s *pipeScenario) shutdown(advance time.Duration) *pipeScenario {
	s.steps = append(s.steps, pipeStep{advance: advance, call: pipeCall{shutdown: true}})
	return s
}

func (s *pipeScenario) recorderName() string { return s.source.Component }

func (s *pipeScenario) run() vector {
	p := &pipe{scenario: s, store: map[string][]byte{}, tries: map[any]*pipeWrite{}, names: map[string]string{}, bodies: map[string]int{}}
	url := ""
	if s.http {
		// Outside the bubble: what waits for a connection would keep its time from moving.
		server := httptest.NewServer(http.HandlerFunc(p.serve))
		defer server.Close()
		url = server.URL
	}
	ran := false
	synctest.Test(new(testing.T), func(*testing.T) {
		p.inBubble(url)
		ran = true
	})
	if !ran {
		panic(s.name + " was not run")
	}
	return p.vector()
}

// A pipe runs one scenario and keeps what is to be told of it.
type pipe struct {
	scenario *pipeScenario

	mu          sync.Mutex
	answersLeft []pipeAnswer
	store       map[string][]byte // over HTTP: events by path
	seen        *pipeHTTP         // the last request that the server saw
	start       time.Time
	retried     bool
	tries       map[any]*pipeWrite
	requests    []vector
	lines       []string
	structured  [][]string
	complaints  []string
	names       map[string]string
	bodies      map[string]int // the request that had it first
}

type pipeHTTP struct {
	method, path, query, contentType string
	body                             []byte
}

// A pipeWrite is an event that is not written yet.
type pipeWrite struct {
	tries    int
	last     time.Time
	fallback bool // a create in the place of the patch goes on with the same try
}

func (p *pipe) inBubble(url string) {
	s := p.scenario
	// Not a whole second, so that names and times show the nanoseconds.
	time.Sleep(123456789)
	p.start = time.Now()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.New(pipeLog{p})))
	defer cancel()
	var client kubernetes.Interface
	if s.http {
		client = must1(kubernetes.NewForConfig(&restclient.Config{
			Host: url, QPS: -1, UserAgent: "goldens", Transport: &http.Transport{DisableKeepAlives: true},
			ContentConfig: restclient.ContentConfig{ContentType: s.contentType}}))
	}

	var say func(pipeCall)
	var shutdown func()
	if s.events {
		var sink events.EventSink = &scriptedEventsSink{p}
		if s.http {
			sink = &watchedEventsSink{p, &events.EventSinkImpl{Interface: client.EventsV1()}}
		}
		b := events.NewBroadcaster(sink)
		must1(b.StartLogging(logr.New(pipeLog{p})))
		must(b.StartRecordingToSinkWithContext(ctx))
		recorder := b.NewRecorder(scheme.Scheme, s.recorderName()).WithLogger(logr.New(pipeLog{p}))
		say = func(c pipeCall) {
			if c.event != nil {
				must(b.(pipeActor).Action(watch.Added, c.event.DeepCopyObject()))
				return
			}
			var related runtime.Object
			if c.related != nil {
				related = c.related.DeepCopy()
			}
			recorder.Eventf(c.about(), related, c.kind, c.reason, c.action, "%s", c.message)
		}
		shutdown = b.Shutdown
	} else {
		var sink record.EventSink = &scriptedCoreSink{p}
		if s.http {
			sink = &watchedCoreSink{p, &typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")}}
		}
		b := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(s.options))
		b.StartLogging(p.line)
		b.StartStructuredLogging(0)
		b.StartRecordingToSink(sink)
		recorder := b.NewRecorder(scheme.Scheme, s.source).WithLogger(logr.New(pipeLog{p}))
		say = func(c pipeCall) {
			switch {
			case c.event != nil:
				must(b.(pipeActor).Action(watch.Added, c.event.DeepCopyObject()))
			case c.how == "event":
				recorder.Event(c.about(), c.kind, c.reason, c.message)
			case c.how == "eventf":
				recorder.Eventf(c.about(), c.kind, c.reason, "%s", c.message)
			default:
				recorder.AnnotatedEventf(c.about(), c.annotations, c.kind, c.reason, "%s", c.message)
			}
		}
		shutdown = b.Shutdown
	}
	synctest.Wait()
	down := false
	for _, step := range s.steps {
		time.Sleep(step.advance)
		synctest.Wait()
		p.mu.Lock()
		p.answersLeft = append(p.answersLeft, step.answers...)
		before := len(p.requests)
		p.mu.Unlock()
		if step.call.shutdown {
			shutdown()
			down = true
		} else {
			say(step.call)
		}
		synctest.Wait()
		p.mu.Lock()
		if s.forgets && len(p.requests) == before {
			p.answersLeft = nil
		}
		p.mu.Unlock()
	}
	time.Sleep(s.settle)
	synctest.Wait()
	if !down {
		shutdown()
	}
	cancel()
	synctest.Wait()
}

type pipeActor interface {
	Action(watch.EventType, runtime.Object) error
}

func (c *pipeCall) about() runtime.Object {
	if c.pod != nil {
		return c.pod.DeepCopy()
	}
	return c.object.DeepCopy()
}

// What listeners are told.

func (p *pipe) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

// A pipeLog takes events that are logged and complaints apart.
type pipeLog struct{ p *pipe }

func (pipeLog) Init(logr.RuntimeInfo)                  {}
func (pipeLog) Enabled(level int) bool                 { return level < 8 } // bodies are logged from there
func (l pipeLog) WithValues(...any) logr.LogSink       { return l }
func (l pipeLog) WithName(string) logr.LogSink         { return l }
func (l pipeLog) Error(_ error, text string, _ ...any) { l.p.complain("error", text) }
func (l pipeLog) Info(level int, text string, fields ...any) {
	if text != "Event occurred" {
		if level >= 4 {
			l.p.complain("debug", text)
			return
		}
		l.p.complain("info", text)
		return
	}
	var line []string
	for _, f := range fields {
		line = append(line, fmt.Sprint(f))
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.p.structured = append(l.p.structured, line)
}

func (p *pipe) complain(level, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complaints = append(p.complaints, level+": "+text)
}

// Requests.

// through sends one request on its way and keeps both sides of it.
func through[E any](p *pipe, verb string, event *E, meta *metav1.ObjectMeta, patch []byte, send func() (*E, error)) (*E, error) {
	v := p.begin(verb, event, meta, patch)
	answer, err := send()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.scenario.http {
		v = p.asSeen(v, event)
	}
	v = p.withBody(v)
	p.requests = append(p.requests, v.with("answer", p.learn(event, verb, answer, err)))
	return answer, err
}

func (p *pipe) begin(verb string, event any, meta *metav1.ObjectMeta, patch []byte) vector {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	v := vector{{"verb", verb}}
	w := p.tries[event]
	switch {
	case w == nil:
		w = &pipeWrite{tries: 1}
		p.tries[event] = w
		if !p.retried { // after that chance has a say in it
			v = v.with("at_ns", now.Sub(p.start).Nanoseconds())
		}
	case w.fallback:
	default:
		p.retried = true
		w.tries++
		v = v.with("try", w.tries).with("wait", p.waitFor(w, now.Sub(w.last)))
	}
	w.last = now
	w.fallback = false

	path := "/api/v1/namespaces/"
	body := patch
	if p.scenario.events {
		path = "/apis/events.k8s.io/v1/namespaces/"
		if verb == "create" {
			sent := *event.(*eventsv1.Event)
			sent.TypeMeta = metav1.TypeMeta{Kind: "Event", APIVersion: "events.k8s.io/v1"}
			body = append(must1(json.Marshal(&sent)), '\n')
		}
	} else if verb == "create" {
		body = append([]byte(coreJSON(event.(*corev1.Event))), '\n')
	}
	path += meta.Namespace + "/events"
	if verb != "create" {
		path += "/" + meta.Name
	}
	return v.with("path", p.plain(path)).with("body", p.plain(string(body)))
}

// withBody stores a body that was sent before as the number of that request.
func (p *pipe) withBody(v vector) vector {
	out := vector{}
	for _, m := range v {
		if m.key != "body" {
			out = append(out, m)
			continue
		}
		if sent, ok := p.bodies[fmt.Sprint(m.value)]; ok {
			out = out.with("body_of", sent)
			continue
		}
		p.bodies[fmt.Sprint(m.value)] = len(p.requests)
		if text, ok := m.value.(string); ok {
			out = out.text("body", []byte(text))
		} else {
			out = out.binary("body", m.value.([]byte))
		}
	}
	return out
}

// waitFor says which rule a sleep followed.
func (p *pipe) waitFor(w *pipeWrite, slept time.Duration) string {
	const sleep = 10 * time.Second
	switch {
	case p.scenario.events && slept >= sleep && slept <= sleep*5/4:
		return "10s-12.5s"
	case p.scenario.events && slept >= 5*time.Minute:
		return "tick"
	case !p.scenario.events && w.tries == 2 && slept <= sleep:
		return "0s-10s"
	case !p.scenario.events && w.tries > 2 && slept == sleep:
		return "10s"
	}
	panic(fmt.Sprintf("%s: slept %v before try %d", p.scenario.name, slept, w.tries))
}

// asSeen adds what only the wire shows and checks that the rest is as expected.
func (p *pipe) asSeen(v vector, event any) vector {
	h := p.seen
	if h == nil {
		return v
	}
	p.seen = nil
	if h.query != "" {
		panic("a query was sent: " + h.query)
	}
	out := vector{}
	for _, m := range v {
		switch {
		case m.key == "path" && m.value != p.plain(h.path):
			panic(fmt.Sprintf("%s: %v was sent to %s", p.scenario.name, m.value, h.path))
		case m.key == "body" && h.contentType == runtime.ContentTypeProtobuf:
			// Lengths stand before the texts, so what is to be replaced is replaced in the event.
			sent := event.(*eventsv1.Event).DeepCopy()
			if !bytes.Equal(protobufOf(sent), h.body) {
				panic(fmt.Sprintf("%s: %v was sent as %q", p.scenario.name, m.value, h.body))
			}
			sent.Name = p.plain(sent.Name)
			sent.ReportingInstance = p.scenario.recorderName() + "-HOST"
			out = out.with("body", protobufOf(sent))
		case m.key == "body" && m.value != p.plain(string(h.body)):
			panic(fmt.Sprintf("%s: %v was sent as %q", p.scenario.name, m.value, h.body))
		default:
			out = append(out, m)
		}
	}
	return out.with("method", h.method).with("content_type", h.contentType)
}

func protobufOf(e *eventsv1.Event) []byte {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		panic("no protobuf")
	}
	return must1(runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, eventsv1.SchemeGroupVersion), e.DeepCopy()))
}

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// plain removes what depends on chance or on this machine.
func (p *pipe) plain(text string) string {
	name := p.scenario.recorderName()
	text = strings.ReplaceAll(text, `"reportingInstance":"`+name+"-"+must1(os.Hostname())+`"`,
		`"reportingInstance":"`+name+`-HOST"`)
	return uuidPattern.ReplaceAllStringFunc(text, func(uuid string) string {
		if p.names[uuid] == "" {
			p.names[uuid] = fmt.Sprintf("<uuid %d>", len(p.names)+1)
		}
		return p.names[uuid]
	})
}

// learn tells the answer in terms that a replay can give it in.
func (p *pipe) learn(event any, verb string, answer any, err error) vector {
	w := p.tries[event]
	if err == nil {
		delete(p.tries, event)
		meta := must1(metaOf(answer))
		sent := must1(metaOf(event))
		if meta.Name == "" {
			return vector{{"empty", true}} // no event at all, and nobody minded
		}
		if core, ok := answer.(*corev1.Event); ok && !saysTheSame(core, event.(*corev1.Event)) {
			return vector{{"event", coreJSON(core)}} // two had the same name
		}
		v := vector{{"rv", meta.ResourceVersion}}
		if meta.Name != sent.Name {
			v = v.with("name", meta.Name)
		}
		if core, ok := answer.(*corev1.Event); ok && core.Count != event.(*corev1.Event).Count {
			v = v.with("count", core.Count)
		}
		return v
	}
	// As the recorders do it: one that is wrapped does not count.
	status, _ := err.(*apierrors.StatusError)
	if status == nil {
		switch err.(type) {
		case *restclient.RequestConstructionError:
			delete(p.tries, event)
			return vector{{"local", "construction"}}
		case *apierrors.UnexpectedObjectError:
			return vector{{"local", "unexpected"}}
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return vector{{"local", "timeout"}}
		}
		return vector{{"local", "transport"}}
	}
	word := status.ErrStatus
	switch {
	case verb == "patch" && word.Code == 404:
		w.fallback = true
	case p.scenario.events && event.(*eventsv1.Event).Series != nil && apierrors.IsAlreadyExists(err):
	default:
		delete(p.tries, event)
	}
	v := vector{{"code", word.Code}, {"reason", word.Reason}, {"message", word.Message}}
	if d := word.Details; d != nil {
		var causes []string
		for _, c := range d.Causes {
			causes = append(causes, string(c.Type))
		}
		if len(causes) > 0 {
			v = v.with("causes", causes)
		}
		if d.RetryAfterSeconds != 0 {
			v = v.with("retry_after", d.RetryAfterSeconds)
		}
	}
	return v
}

func saysTheSame(a, b *corev1.Event) bool {
	return a.InvolvedObject == b.InvolvedObject && a.Source == b.Source && a.Type == b.Type &&
		a.Reason == b.Reason && a.Message == b.Message && a.FirstTimestamp.Unix() == b.FirstTimestamp.Unix()
}

func metaOf(event any) (*metav1.ObjectMeta, error) {
	switch e := event.(type) {
	case *corev1.Event:
		return &e.ObjectMeta, nil
	case *eventsv1.Event:
		return &e.ObjectMeta, nil
	}
	return nil, fmt.Errorf("a %T is no event", event)
}

func (p *pipe) nextAnswer() pipeAnswer {
	if len(p.answersLeft) == 0 {
		return pipeAnswer{}
	}
	a := p.answersLeft[0]
	p.answersLeft = p.answersLeft[1:]
	return a
}

// scripted answers in the place of a sink.
func scripted[E any](p *pipe, event *E, change func(*E, string, pipeAnswer)) (*E, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.nextAnswer()
	if a.err != nil {
		return nil, a.err
	}
	answer := new(E)
	must(json.Unmarshal(must1(json.Marshal(event)), answer))
	change(answer, fmt.Sprint(len(p.requests)+1), a)
	return answer, nil
}

type scriptedCoreSink struct{ p *pipe }

func (k *scriptedCoreSink) write(verb string, e *corev1.Event, patch []byte) (*corev1.Event, error) {
	return through(k.p, verb, e, &e.ObjectMeta, patch, func() (*corev1.Event, error) {
		return scripted(k.p, e, func(answer *corev1.Event, rv string, a pipeAnswer) {
			answer.ResourceVersion = rv
			if a.name != "" {
				answer.Name = a.name
			}
			if a.count != 0 {
				answer.Count = a.count
			}
		})
	})
}
func (k *scriptedCoreSink) Create(e *corev1.Event) (*corev1.Event, error) {
	return k.write("create", e, nil)
}
func (k *scriptedCoreSink) Update(*corev1.Event) (*corev1.Event, error) { panic("never used") }
func (k *scriptedCoreSink) Patch(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	return k.write("patch", e, patch)
}

type scriptedEventsSink struct{ p *pipe }

func (k *scriptedEventsSink) write(verb string, e *eventsv1.Event, patch []byte) (*eventsv1.Event, error) {
	return through(k.p, verb, e, &e.ObjectMeta, patch, func() (*eventsv1.Event, error) {
		return scripted(k.p, e, func(answer *eventsv1.Event, rv string, a pipeAnswer) {
			answer.ResourceVersion = rv
		})
	})
}
func (k *scriptedEventsSink) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	return k.write("create", e, nil)
}
func (k *scriptedEventsSink) Update(context.Context, *eventsv1.Event) (*eventsv1.Event, error) {
	panic("never used")
}
func (k *scriptedEventsSink) Patch(_ context.Context, e *eventsv1.Event, patch []byte) (*eventsv1.Event, error) {
	return k.write("patch", e, patch)
}

// The real sinks, looked at from both sides.

type watchedCoreSink struct {
	p    *pipe
	sink record.EventSink
}

func (k *watchedCoreSink) Create(e *corev1.Event) (*corev1.Event, error) {
	return through(k.p, "create", e, &e.ObjectMeta, nil, func() (*corev1.Event, error) { return k.sink.Create(e) })
}
func (k *watchedCoreSink) Update(*corev1.Event) (*corev1.Event, error) { panic("never used") }
func (k *watchedCoreSink) Patch(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	return through(k.p, "patch", e, &e.ObjectMeta, patch, func() (*corev1.Event, error) { return k.sink.Patch(e, patch) })
}

type watchedEventsSink struct {
	p    *pipe
	sink events.EventSink
}

func (k *watchedEventsSink) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	return through(k.p, "create", e, &e.ObjectMeta, nil, func() (*eventsv1.Event, error) { return k.sink.Create(ctx, e) })
}
func (k *watchedEventsSink) Update(context.Context, *eventsv1.Event) (*eventsv1.Event, error) {
	panic("never used")
}
func (k *watchedEventsSink) Patch(ctx context.Context, e *eventsv1.Event, patch []byte) (*eventsv1.Event, error) {
	return through(k.p, "patch", e, &e.ObjectMeta, patch, func() (*eventsv1.Event, error) { return k.sink.Patch(ctx, e, patch) })
}

// serve is a small API server for events.
func (p *pipe) serve(w http.ResponseWriter, r *http.Request) {
	body := must1(io.ReadAll(r.Body))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = &pipeHTTP{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"), body}
	a := p.nextAnswer()
	if a.code < 0 {
		conn, _, err := w.(http.Hijacker).Hijack()
		must(err)
		conn.Close()
		return
	}
	send := func(code int, contentType string, b []byte) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		w.Write(b)
	}
	sendStatus := func(err error) {
		status := err.(*apierrors.StatusError).ErrStatus
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		send(int(status.Code), "application/json", must1(json.Marshal(&status)))
	}
	switch {
	case a.err != nil:
		sendStatus(a.err)
		return
	case a.code != 0:
		send(a.code, a.contentType, []byte(a.body))
		return
	}
	rv := fmt.Sprint(len(p.requests) + 1)
	path, code := r.URL.Path, http.StatusOK
	var object map[string]any
	if r.Method == http.MethodPost {
		if p.seen.contentType == runtime.ContentTypeProtobuf {
			e, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
			must(err)
			body = must1(json.Marshal(e))
		}
		must(json.Unmarshal(body, &object))
		object["kind"] = "Event"
		object["apiVersion"] = "v1"
		if p.scenario.events {
			object["apiVersion"] = "events.k8s.io/v1"
		}
		path += "/" + object["metadata"].(map[string]any)["name"].(string)
		code = http.StatusCreated
		if p.store[path] != nil {
			sendStatus(alreadyExists.err)
			return
		}
	} else {
		stored, ok := p.store[path]
		if !ok {
			sendStatus(expired.err)
			return
		}
		var like any = corev1.Event{}
		if p.scenario.events {
			like = eventsv1.Event{}
		}
		must(json.Unmarshal(must1(strategicpatch.StrategicMergePatch(stored, body, like)), &object))
	}
	object["metadata"].(map[string]any)["resourceVersion"] = rv
	p.store[path] = must1(json.Marshal(object))
	send(code, "application/json", p.store[path])
}

// The vector.

func (p *pipe) vector() vector {
	s := p.scenario
	v := named(s.name)
	style := "record"
	if s.events {
		style = "events"
	}
	v = v.with("style", style)
	if s.http {
		v = v.with("http", true)
	}
	v = v.with("start_ns", p.start.UnixNano())
	v = v.with("component", s.source.Component)
	if !s.events {
		v = v.with("host", s.source.Host)
	}
	if options := (&countScenario{options: s.options}).optionsVector(); len(options) > 0 {
		v = v.with("options", options)
	}
	var steps []vector
	for _, step := range s.steps {
		steps = append(steps, step.vector())
	}
	v = v.with("steps", steps).with("settle_ns", s.settle.Nanoseconds())
	v = v.with("requests", orEmpty(p.requests))
	if !s.events && !s.silent {
		v = v.with("lines", orEmpty(p.lines))
	}
	if !s.silent {
		v = v.with("structured", orEmpty(p.structured))
	}
	return v.with("complaints", orEmpty(p.complaints))
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (step *pipeStep) vector() vector {
	v := vector{{"advance_ns", step.advance.Nanoseconds()}}
	c := &step.call
	if c.shutdown {
		return v.with("call", "shutdown")
	}
	if c.event != nil {
		var members map[string]any
		must(json.Unmarshal(must1(json.Marshal(c.event)), &members))
		return v.with("call", "action").with("event", json.RawMessage(compact(withoutEmpty(members))))
	}
	v = v.with("call", c.how)
	if c.pod != nil {
		v = v.with("object_json", string(must1(json.Marshal(c.pod))))
	} else if c.object != usualObject {
		v = v.with("object", c.object)
	}
	if c.related != nil {
		v = v.with("related", c.related)
	}
	v = v.with("type", c.kind).with("reason", c.reason)
	if c.action != "" {
		v = v.with("action", c.action)
	}
	if c.annotations != nil {
		v = v.with("annotations", c.annotations)
	}
	return v.text("message", []byte(c.message))
}

// The scenarios.

func says(text string) func(*pipeCall) { return func(c *pipeCall) { c.message = text } }
func citing(reason string) func(*pipeCall) {
	return func(c *pipeCall) { c.reason = reason }
}
func warns(c *pipeCall) { c.kind = "Warning" }
func on(name string) func(*pipeCall) {
	return func(c *pipeCall) { c.object.Name = name }
}
func with(annotations map[string]string) func(*pipeCall) {
	return func(c *pipeCall) { c.how, c.annotations = "annotated", annotations }
}
func by(how string) func(*pipeCall) { return func(c *pipeCall) { c.how = how } }
func onNode(c *pipeCall) {
	c.object = corev1.ObjectReference{Kind: "Node", Name: "n1", UID: "n1", APIVersion: "v1"}
}

func newPipe(name string) *pipeScenario {
	return &pipeScenario{name: name, settle: pipeSettle,
		source: corev1.EventSource{Component: "kubelet", Host: "n1"}}
}

func newEventsPipe(name string) *pipeScenario {
	return &pipeScenario{name: "events-" + name, events: true, settle: pipeSettle,
		source: corev1.EventSource{Component: "ctl"}}
}

func pipeScenarios() []*pipeScenario {
	var out []*pipeScenario
	add := func(s *pipeScenario) *pipeScenario {
		out = append(out, s)
		return s
	}
	old := func(name string) *pipeScenario { return add(newPipe(name)) }
	fresh := func(name string) *pipeScenario { return add(newEventsPipe(name)) }
	over := func(s *pipeScenario) *pipeScenario {
		s.http = true
		s.name = "http-" + s.name
		return s
	}
	const second, minute = time.Second, time.Minute

	// The form of requests.
	over(old("one")).at(second)
	over(old("counted")).times(4, second)
	over(old("each-call")).at(second).at(second, by("eventf"), says("done <b> & \"c\" 100%")).
		at(second, with(map[string]string{"k": "v", "a": "1"}), warns)
	over(old("cluster-scoped")).times(2, second, onNode)
	over(old("pod-itself")).times(2, second, func(c *pipeCall) {
		c.pod = &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "prod", UID: "u-0", ResourceVersion: "77"}}
	})
	over(old("odd-text")).at(second, says("☃ \u2028 \t<&>\x01 é")).at(second, says("☃ \u2028 \t<&>\x01 é"))
	over(old("names-that-are-none")).at(second, on("Web_0")).at(second, on(strings.Repeat("x", 250))).at(second, on("Web_0"))
	s := over(old("similar"))
	for i := range 12 {
		s.at(second, says(fmt.Sprintf("try %d", i)))
	}
	over(old("same-name")).at(second).at(0, citing("Killing")).at(second).at(second, citing("Killing")).at(second)
	over(old("expired")).at(second).at(minute).answers(expired).at(minute)
	over(old("answers-of-all-kinds")).
		at(second).answers(alreadyExists).at(second, citing("A")).answers(conflict).at(second, citing("B")).answers(invalid).
		at(second, citing("C")).answers(forbidden).at(second, citing("D")).answers(terminating).at(second, citing("E")).answers(internalError).
		at(second, citing("F")).answers(unavailable).at(second, citing("G")).answers(tooMany)
	over(old("not-a-status")).
		at(second).answers(pipeAnswer{code: 502, contentType: "text/html", body: "<html>bad gateway</html>"}).
		at(second, citing("A")).answers(pipeAnswer{code: 429, contentType: "text/plain", body: "Too many requests, please try again later."}).
		at(second, citing("B")).answers(pipeAnswer{code: 404, contentType: "text/plain", body: "404 page not found\n"})
	over(old("not-an-event")).at(second).answers(
		pipeAnswer{code: 200, contentType: "application/json", body: `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}`},
		pipeAnswer{code: 200, contentType: "application/json", body: `{"kind":`}).at(pipeSettle)
	over(old("ok-that-is-a-status")).at(second).answers(
		pipeAnswer{code: 200, contentType: "application/json", body: `{"kind":"Status","apiVersion":"v1","status":"Success"}`}).at(pipeSettle)
	over(old("connection-closed")).at(second).answers(pipeAnswer{code: -1}, pipeAnswer{code: -1}).at(pipeSettle).answers(pipeAnswer{code: -1})
	over(fresh("one")).at(second)
	over(fresh("repeated")).times(4, second)
	over(fresh("repeated-as-json")).times(2, second).contentType = runtime.ContentTypeJSON
	over(fresh("related")).at(second, func(c *pipeCall) {
		c.related = &corev1.ObjectReference{Kind: "Node", Name: "n1", UID: "n1", APIVersion: "v1"}
		c.message = "bound <b> & \"c\" 100%"
	})
	over(fresh("cluster-scoped")).times(2, second, onNode)
	over(fresh("pod-itself")).times(2, second, func(c *pipeCall) {
		c.pod = &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "prod", UID: "u-0", ResourceVersion: "77"}}
	})
	over(fresh("expired")).at(second).at(minute).answers(expired)
	over(fresh("finished")).times(3, second).settle = 13 * minute
	over(fresh("names-that-are-none")).times(2, second, on("Web_0"))

	// What each answer leads to, for a new event and for a repeat.
	for _, c := range []struct {
		name   string
		answer pipeAnswer
	}{
		{"not-found", expired}, {"already-exists", alreadyExists}, {"conflict", conflict}, {"invalid", invalid},
		{"forbidden", forbidden}, {"namespace-terminating", terminating}, {"unauthorized", unauthorized},
		{"bad-request", badRequest}, {"too-large", tooLarge}, {"too-many", tooMany}, {"too-many-for-five", tooManyForFive},
		{"internal-error", internalError}, {"bad-gateway", badGateway}, {"unavailable", unavailable},
		{"server-timeout", serverTimeout}, {"gateway-timeout", gatewayTimeout}, {"unconstructable", unconstructable},
		{"unexpected", unexpected}, {"refused", refused}, {"timed-out", timedOut},
	} {
		old("create-" + c.name).at(second).answers(c.answer).at(pipeSettle)
		old("patch-" + c.name).at(second).at(second).answers(c.answer).at(pipeSettle)
		fresh("create-"+c.name).at(second).answers(c.answer).at(pipeSettle, says("again"))
		fresh("patch-"+c.name).at(second).at(second).answers(c.answer).at(pipeSettle, says("again"))
	}

	// Tries.
	old("give-up").at(second).answers(repeated(refused, 12)...).at(pipeSettle)
	old("give-up-one-later").at(second).answers(repeated(refused, 11)...).at(pipeSettle)
	old("give-up-a-repeat").at(second).at(second).answers(repeated(timedOut, 12)...).at(pipeSettle)
	old("refused-then-rejected").at(second).answers(refused, refused, invalid).at(pipeSettle)
	old("refused-then-there-already").at(second).answers(timedOut, alreadyExists).at(pipeSettle)
	old("others-wait").at(second).answers(refused, refused, refused).
		at(0, on("db")).at(0, citing("Killing")).at(0).at(second, warns)
	old("nobody-home").at(second).answers(repeated(refused, 40)...).at(0, on("db")).at(0, on("cache")).at(0, on("queue")).
		settle = 4 * pipeSettle
	old("expired-then-refused").at(second).at(second).answers(expired, refused).at(pipeSettle)
	old("expired-then-refused-then-back").at(second).at(second).answers(expired, refused, pipeAnswer{}).at(pipeSettle)
	old("expired-twice").at(second).at(second).answers(expired, refused, expired).at(pipeSettle)
	old("expired-then-there-already").at(second).at(second).answers(expired, alreadyExists).at(pipeSettle)
	old("expired-then-namespace-gone").at(second).at(second).answers(expired, expired).at(pipeSettle)
	old("expired-always").at(second).at(second).answers(expired).at(minute).answers(expired).at(minute).answers(expired).at(minute)
	fresh("give-up").at(second).answers(repeated(refused, 12)...).at(pipeSettle)
	fresh("give-up-one-later").at(second).answers(repeated(refused, 11)...).at(pipeSettle)
	fresh("give-up-a-repeat").at(second).at(second).answers(repeated(timedOut, 12)...).at(pipeSettle)
	fresh("refused-then-there-already").at(second).answers(timedOut, alreadyExists).at(pipeSettle)
	fresh("expired-then-refused").at(second).at(second).answers(expired, refused).at(pipeSettle)
	fresh("expired-twice").at(second).at(second).answers(expired, refused, expired).at(pipeSettle)
	fresh("expired-then-there-already").at(second).at(second).answers(expired, alreadyExists).at(pipeSettle)
	fresh("expired-then-there-already-always").at(second).at(second).answers(expired, alreadyExists, expired, alreadyExists, expired, alreadyExists).at(pipeSettle)
	fresh("repeat-does-not-wait").at(second).answers(refused).at(second).answers(expired, pipeAnswer{}, alreadyExists).
		at(second).at(pipeSettle)
	fresh("others-do-not-wait").at(second).answers(refused).at(second, on("db")).at(second, on("cache"))

	// What the server makes of it comes back.
	old("server-names").at(second).answers(pipeAnswer{name: "server-1"}).at(second).at(second).answers(pipeAnswer{name: "server-2"}).at(second)
	old("server-counts").at(second).answers(pipeAnswer{count: 7}).at(second).at(second).answers(pipeAnswer{count: 100}).at(second)
	old("server-names-then-expired").at(second).answers(pipeAnswer{name: "server-1"}).at(second).answers(expired).at(second)

	// Correlation.
	old("spam").times(30, second)
	old("spam-and-back").times(26, second).at(5 * minute).at(second).at(10 * minute).at(second)
	old("others-are-not-spam").times(26, second).at(second, on("db")).at(0, warns)
	s = old("similar-over-the-border")
	for i := range 9 {
		s.at(second, says(fmt.Sprintf("try %d", i)))
	}
	s.at(10*minute, says("try 9")).at(10*minute+1, says("try 10"))
	s = old("similar-and-expired")
	for i := range 11 {
		s.at(second, says(fmt.Sprintf("try %d", i)))
	}
	s.at(second, says("try 11")).answers(expired).at(second, says("try 12"))
	s = old("similar-annotated")
	for i := range 11 {
		s.at(second, says(fmt.Sprintf("try %d", i)), with(map[string]string{"k": "v"}))
	}
	s = old("options")
	s.options = record.CorrelatorOptions{BurstSize: 4, QPS: 1, MaxEvents: 3, MaxIntervalInSeconds: 5}
	for i := range 6 {
		s.at(second/2, says(fmt.Sprintf("try %d", i)))
	}
	s.at(6*second, says("try 6")).times(5, 0, says("try 6"))
	s = old("small-cache")
	s.options = record.CorrelatorOptions{LRUCacheSize: 2}
	s.at(second).at(second, on("a")).at(second).at(second, on("b")).at(second, on("c")).at(second).at(second, on("c"))
	old("same-instant").at(second).at(0).at(0, citing("Killing"))
	old("parts-of-a-pod").
		at(second, func(c *pipeCall) { c.object.FieldPath = "spec.containers{a}" }).
		at(second, func(c *pipeCall) { c.object.FieldPath = "spec.containers{b}" }).
		at(second, func(c *pipeCall) { c.object.FieldPath = "spec.containers{a}" })
	old("keys-that-run-together").at(second, func(c *pipeCall) { c.reason, c.message = "Ba", "ck" }).
		at(second, func(c *pipeCall) { c.reason, c.message = "B", "ack" })
	fresh("resource-version-differs").at(second).at(second, func(c *pipeCall) { c.object.ResourceVersion = "2" })
	fresh("kinds-differ").at(second).at(second, warns).at(second, citing("Other")).at(second, func(c *pipeCall) { c.action = "Other" }).at(second)
	fresh("other-note").at(second).at(second, says("another")).at(second, says("a third"))
	fresh("finished-then-anew").times(3, second).at(13*minute).times(2, second).settle = 13 * minute
	fresh("singleton-leaves").at(second).at(13 * minute)
	s = fresh("refreshed")
	s.times(10, 4*minute).settle = 20 * minute
	s = fresh("refreshed-and-expired")
	s.times(7, 4*minute+second).at(40 * second).answers(expired)
	s.settle = 20 * minute
	s = fresh("refresh-refused")
	s.times(7, 4*minute+second).at(40 * second).answers(refused)
	s.settle = 20 * minute
	s = fresh("finish-expired")
	s.times(3, second).answers(expired)
	s.settle = 13 * minute
	s = fresh("finish-rejected")
	s.times(3, second).answers(invalid)
	s.settle = 20 * minute
	s = fresh("finish-refused")
	s.times(3, second).answers(refused)
	s.settle = 20 * minute

	// What no recorder says.
	old("wrong-type").at(second, func(c *pipeCall) { c.kind = "Alarming" }).at(second)
	fresh("wrong-type").at(second, func(c *pipeCall) { c.kind = "" }).at(second)
	old("empty-texts").at(second, func(c *pipeCall) { c.reason, c.message = "", "" }).at(second, func(c *pipeCall) { c.reason, c.message = "", "" })
	old("empty-reference").at(second, func(c *pipeCall) { c.object = corev1.ObjectReference{} })
	old("long-message").at(second, says(strings.Repeat("long ", 250))).at(second, says(strings.Repeat("long ", 250)))
	fresh("long-note").at(second, says(strings.Repeat("long ", 250)))
	fresh("empty-texts").at(second, func(c *pipeCall) { c.reason, c.message, c.action = "", "", "" })
	old("about-an-event").at(second, func(c *pipeCall) { c.object.Kind = "Event" })
	counted := func(change func(*corev1.Event)) func(*pipeCall) {
		return func(c *pipeCall) {
			e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "foreign", Namespace: "ns", ResourceVersion: "5"},
				InvolvedObject: c.object, Reason: "Seen", Message: "elsewhere", Type: "Normal", Count: 5,
				FirstTimestamp: metav1.NewTime(seriesStart), LastTimestamp: metav1.NewTime(seriesStart.Add(minute)),
				Source: corev1.EventSource{Component: "other"}}
			if change != nil {
				change(e)
			}
			c.event = e
		}
	}
	old("foreign").at(second, counted(nil)).at(second, counted(nil))
	old("foreign-and-expired").at(second, counted(nil)).answers(expired).at(second, counted(nil))
	old("foreign-without-a-count").times(3, second, counted(func(e *corev1.Event) { e.Count = 0 }))
	old("foreign-with-a-series").at(second, counted(func(e *corev1.Event) {
		e.Count, e.Series = 1, &corev1.EventSeries{Count: 3}
	})).answers(alreadyExists).at(pipeSettle)
	foreign := func(change func(*eventsv1.Event)) func(*pipeCall) {
		return func(c *pipeCall) {
			e := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Name: "foreign", Namespace: "ns", ResourceVersion: "5"},
				Regarding: c.object, Reason: "Seen", Action: "Seeing", Note: "elsewhere", Type: "Normal",
				EventTime: metav1.NewMicroTime(seriesStart), ReportingController: "other", ReportingInstance: "other-1"}
			if change != nil {
				change(e)
			}
			c.event = e
		}
	}
	fresh("foreign").times(2, second, foreign(nil))
	series := func(e *eventsv1.Event) {
		e.Series = &eventsv1.EventSeries{Count: 9, LastObservedTime: metav1.NewMicroTime(seriesStart)}
	}
	fresh("foreign-series").times(2, second, foreign(series)).settle = 13 * minute
	fresh("foreign-series-expired").at(second, foreign(series)).answers(expired)

	// The end.
	old("after-the-end").at(second).shutdown(second).at(second)
	old("end-while-sleeping").at(second).answers(repeated(refused, 12)...).shutdown(0)
	fresh("after-the-end").at(second).shutdown(second).at(second)
	return out
}

// randomPipeScenarios keeps away from what depends on how long the sleeps were:
// no group gets ten messages and no bucket gets empty where answers may fail.
func randomPipeScenarios() []*pipeScenario {
	var out []*pipeScenario
	bad := []pipeAnswer{expired, alreadyExists, conflict, invalid, forbidden, terminating, tooManyForFive, internalError,
		unavailable, unconstructable, unexpected, refused, refused, timedOut}
	for seed := range int64(14) {
		r := rand.New(rand.NewSource(seed))
		s := newPipe(fmt.Sprintf("random-%d", seed+1))
		s.silent = true
		s.options = record.CorrelatorOptions{BurstSize: 1000}
		s.http = seed%4 == 3
		gaps := []time.Duration{0, 0, 1, time.Second, 7*time.Second + 5, time.Minute, pipeSettle}
		for range 30 {
			s.at(gaps[r.Intn(len(gaps))], on([]string{"web", "web", "db"}[r.Intn(3)]),
				citing([]string{"Pulled", "Started"}[r.Intn(2)]), says([]string{"a", "b", "c <d>", "é"}[r.Intn(4)]))
			if r.Intn(8) == 0 {
				warns(&s.steps[len(s.steps)-1].call)
			}
			if r.Intn(10) == 0 {
				with(map[string]string{"seed": fmt.Sprint(seed)})(&s.steps[len(s.steps)-1].call)
			}
		}
		// Which answer meets which request must not depend on the sleeps either, so
		// all are there from the start.
		first := &s.steps[0]
		for range 60 {
			a := pipeAnswer{}
			switch n := r.Intn(16); {
			case n < 4:
				a = bad[r.Intn(len(bad))]
				if _, isStatus := a.err.(*apierrors.StatusError); s.http && (!isStatus || a.err == tooManyForFive.err) {
					a = pipeAnswer{code: -1}
				}
			case n == 4 && !s.http:
				a.count = int32(2 + r.Intn(40))
			case n == 5 && !s.http:
				a.name = fmt.Sprintf("server.%d", len(first.answers))
			}
			first.answers = append(first.answers, a)
		}
		s.settle = 20 * pipeSettle
		out = append(out, s)
	}
	for seed := range int64(4) {
		r := rand.New(rand.NewSource(100 + seed))
		s := newPipe(fmt.Sprintf("random-similar-%d", seed+1))
		s.silent = true
		gaps := []time.Duration{0, 1, time.Second, 20 * time.Second, 599 * time.Second, 601 * time.Second}
		for i := range 40 {
			s.at(gaps[r.Intn(len(gaps))], on([]string{"web", "web", "web", "db"}[r.Intn(4)]), says(fmt.Sprintf("said %d", i)))
			if r.Intn(6) == 0 {
				s.answers([]pipeAnswer{expired, alreadyExists, invalid, internalError, {count: 30}, {name: "server"}}[r.Intn(6)])
			}
		}
		out = append(out, s)
	}
	for seed := range int64(8) {
		r := rand.New(rand.NewSource(200 + seed))
		s := newEventsPipe(fmt.Sprintf("random-%d", seed+1))
		s.forgets = true
		// Client-go keeps no order among what is under way at the same time, nor among
		// its timers. So each event has come to its end before the next tick, there is
		// one series, and none ends where all are refreshed.
		const tick = 6 * time.Minute
		now := time.Duration(0)
		for i := range 12 {
			if i%5 != 4 && r.Intn(3) == 0 {
				continue
			}
			next := time.Duration(i)*tick + 5*time.Second + time.Duration(r.Int63n(int64(3*time.Minute)))
			s.at(next-now, says(fmt.Sprintf("note %d", i)))
			now = next
			n := r.Intn(3)
			for range n {
				s.answers([]pipeAnswer{refused, timedOut, unexpected}[r.Intn(3)])
			}
			if n > 0 {
				s.answers([]pipeAnswer{{}, {}, invalid, expired}[r.Intn(4)])
			}
		}
		s.settle = 15 * time.Minute
		out = append(out, s)
	}
	return out
}
