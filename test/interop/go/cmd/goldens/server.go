package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"
)

const (
	jsonType     = runtime.ContentTypeJSON
	protobufType = runtime.ContentTypeProtobuf
)

// An api is one of the two doors to events, served by kube-apiserver's own
// request handlers over storage that is replaced here. Driving the handlers
// instead of imitating them keeps the order of their checks and the wording of
// their answers out of our hands.
type api struct {
	name  string
	scope handlers.RequestScope
}

var (
	coreAPI   = newAPI("v1", schema.GroupVersion{Version: "v1"})
	eventsAPI = newAPI("events.k8s.io/v1", schema.GroupVersion{Group: "events.k8s.io", Version: "v1"})
	bothAPIs  = []*api{coreAPI, eventsAPI}
)

// codecs is configured as the server configures its own.
var codecs = serializer.NewCodecFactory(legacyscheme.Scheme,
	serializer.WithStreamingCollectionEncodingToJSON(),
	serializer.WithStreamingCollectionEncodingToProtobuf())

// The server sets this limit from its options, whose default it is.
func init() { jsonpatch.AccumulatedCopySizeLimit = 3 * 1024 * 1024 }

func newAPI(name string, gv schema.GroupVersion) *api {
	scheme := legacyscheme.Scheme
	kind := gv.WithKind("Event")
	hub := schema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal}
	return &api{name: name, scope: handlers.RequestScope{
		Serializer:      codecs,
		ParameterCodec:  legacyscheme.ParameterCodec,
		Creater:         scheme,
		Convertor:       scheme,
		Defaulter:       scheme,
		Typer:           scheme,
		UnsafeConvertor: runtime.UnsafeObjectConvertor(scheme),
		TableConvertor: printerstorage.TableConvertor{
			TableGenerator: printers.NewTableGenerator().With(printersinternal.AddHandlers)},
		// It adds nothing to objects without managedFields, which is what
		// the vectors have wherever it runs.
		FieldManager: must1(managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(),
			scheme, scheme, scheme, kind, hub, "", nil)),
		Resource:            gv.WithResource("events"),
		Kind:                kind,
		MetaGroupVersion:    metav1.SchemeGroupVersion,
		HubGroupVersion:     hub,
		MaxRequestBodyBytes: 3 * 1024 * 1024,
	}}
}

// encode writes an internal object the way this API answers it.
func (a *api) encode(mediaType string, obj runtime.Object) []byte {
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		panic(mediaType)
	}
	return must1(runtime.Encode(codecs.EncoderForVersion(info.Serializer, a.scope.Kind.GroupVersion()), obj))
}

// decode reads JSON of this API without the surroundings of a request.
func (a *api) decode(body []byte) (*core.Event, error) {
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), jsonType)
	kind := a.scope.Kind
	obj, _, err := codecs.DecoderToVersion(info.Serializer, a.scope.HubGroupVersion).Decode(body, &kind, &core.Event{})
	if err != nil {
		return nil, err
	}
	return obj.(*core.Event), nil
}

// An answer is what a client would see.
type answer struct {
	code     int
	body     []byte
	status   metav1.Status // set when the server refused
	warnings []string
}

func (r answer) ok() bool { return r.code < 300 }

func (r *answer) AddWarning(_, text string) { r.warnings = append(r.warnings, text) }

// serve sends one request through a real handler.
func (a *api) serve(h http.HandlerFunc, method, query, contentType, accept string, body []byte) answer {
	var r answer
	req := httptest.NewRequest(method, "http://server/path?"+query, bytes.NewReader(body))
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", accept)
	ctx := request.WithRequestInfo(req.Context(), a.requestInfo(method))
	ctx = warning.WithWarningRecorder(audit.WithAuditContext(ctx), &r)
	w := httptest.NewRecorder()
	h(w, req.WithContext(ctx))
	r.code = w.Code
	r.body = renameScheme(w.Body.Bytes())
	if !r.ok() && accept == jsonType {
		must(json.Unmarshal(r.body, &r.status))
	}
	return r
}

func (a *api) requestInfo(method string) *request.RequestInfo {
	gvr := a.scope.Resource
	return &request.RequestInfo{
		IsResourceRequest: true,
		Verb:              map[string]string{"POST": "create", "PATCH": "patch", "PUT": "update", "GET": "list"}[method],
		APIGroup:          gvr.Group, APIVersion: gvr.Version, Resource: gvr.Resource,
	}
}

// refusal is the JSON body with which this API reports an error.
func (a *api) refusal(mediaType string, err error) []byte {
	req := httptest.NewRequest("GET", "http://server/path", nil)
	req.Header.Set("Accept", mediaType)
	w := httptest.NewRecorder()
	responsewriters.ErrorNegotiated(err, codecs, a.scope.Kind.GroupVersion(), w, req)
	return renameScheme(w.Body.Bytes())
}

// renameScheme puts in the name under which kube-apiserver's messages know the
// scheme. It is the source line that created it; but the library finds that
// line by path, and the versioned paths of the module cache mislead it.
func renameScheme(body []byte) []byte {
	return bytes.ReplaceAll(body, []byte(legacyscheme.Scheme.Name()), []byte("pkg/api/legacyscheme/scheme.go:30"))
}

// namer stands where the server looks at the URL, and is the first to see the
// object that the request was decoded into.
type namer struct {
	namespace, name string
	seen            *core.Event
}

func (n *namer) Namespace(*http.Request) (string, error) { return n.namespace, nil }

func (n *namer) Name(*http.Request) (string, string, error) {
	if n.name == "" {
		return "", "", errors.New("the URL names no object")
	}
	return n.namespace, n.name, nil
}

func (n *namer) ObjectName(obj runtime.Object) (string, string, error) {
	event := obj.(*core.Event)
	if n.seen == nil {
		n.seen = event.DeepCopy()
	}
	return event.Namespace, event.Name, nil
}

// create posts a body and returns the object as decoded, before the server
// wiped or filled in anything.
func (a *api) create(query, contentType string, body []byte) (answer, *core.Event) {
	scope := a.scope
	n := &namer{}
	scope.Namer = n
	h := handlers.CreateResource(storage{}, &scope, nil)
	return a.serve(h, "POST", query, contentType, jsonType, body), n.seen
}

// patch applies a patch to a stored object.
func (a *api) patch(query, contentType string, stored *core.Event, body []byte) answer {
	scope := a.scope
	scope.Namer = &namer{namespace: stored.Namespace, name: stored.Name}
	h := handlers.PatchResource(storage{event: stored}, &scope, nil, []string{contentType})
	return a.serve(h, "PATCH", query, contentType, jsonType, body)
}

// list answers a list request.
func (a *api) list(query, accept string, list *core.EventList) answer {
	scope := a.scope
	scope.Namer = &namer{}
	s := storage{list: list, TableConvertor: scope.TableConvertor}
	h := handlers.ListResource(s, s, &scope, false, time.Hour)
	return a.serve(h, "GET", query, "", accept, nil)
}

// watch answers a watch request that sees these events and then ends.
func (a *api) watch(query, accept string, events ...watch.Event) answer {
	scope := a.scope
	scope.Namer = &namer{}
	s := storage{watch: events, TableConvertor: scope.TableConvertor}
	h := handlers.ListResource(s, s, &scope, false, time.Hour)
	return a.serve(h, "GET", "watch=1&"+query, "", accept, nil)
}

// storage takes the place of etcd: it holds what one request needs.
type storage struct {
	event *core.Event
	list  *core.EventList
	watch []watch.Event
	rest.TableConvertor
}

func (storage) New() runtime.Object     { return &core.Event{} }
func (storage) NewList() runtime.Object { return &core.EventList{} }
func (storage) Destroy()                {}

func (storage) Create(_ context.Context, obj runtime.Object, _ rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	return obj, nil
}

func (s storage) Get(context.Context, string, *metav1.GetOptions) (runtime.Object, error) {
	return s.event.DeepCopy(), nil
}

func (s storage) Update(ctx context.Context, _ string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, _ rest.ValidateObjectUpdateFunc, _ bool, _ *metav1.UpdateOptions) (runtime.Object, bool, error) {
	obj, err := info.UpdatedObject(ctx, s.event.DeepCopy())
	return obj, false, err
}

func (s storage) List(context.Context, *internalversion.ListOptions) (runtime.Object, error) {
	return s.list.DeepCopy(), nil
}

func (s storage) Watch(context.Context, *internalversion.ListOptions) (watch.Interface, error) {
	c := make(chan watch.Event, len(s.watch))
	for _, e := range s.watch {
		c <- e
	}
	close(c)
	return watch.NewProxyWatcher(c), nil
}
