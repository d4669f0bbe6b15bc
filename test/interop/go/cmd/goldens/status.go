package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func mustJSON(data []byte, into any) { must(json.Unmarshal(data, into)) }

// statusVectors has two kinds: "write" is a Status as the server sends it,
// "judge" is the Status that client-go's REST client derives from an answer.
func statusVectors() []vector {
	var out []vector
	for _, c := range statusSamples() {
		v := named("write-"+c.name).with("kind", "write")
		var status metav1.Status
		body := coreAPI.refusal(jsonType, c.err)
		mustJSON(body, &status)
		out = append(out, v.with("code", status.Code).with("reason", string(status.Reason)).
			text("json", body).binary("pb", coreAPI.refusal(protobufType, c.err)))
	}
	for _, c := range plainStatuses() {
		out = append(out, named("write-"+c.name).with("kind", "write").with("code", c.status.Code).with("reason", string(c.status.Reason)).
			text("json", coreAPI.encode(jsonType, &c.status)).binary("pb", coreAPI.encode(protobufType, &c.status)))
	}
	for _, c := range bodiesToJudge() {
		out = append(out, judge(c))
	}
	return out
}

type statusSample struct {
	name string
	err  error
}

func statusSamples() []statusSample {
	inCore := schema.GroupResource{Resource: "events"}
	inEvents := schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
	kind := schema.GroupKind{Kind: "Event"}
	boom := errors.New("boom")
	required := field.Required(field.NewPath("action"), "")
	invalid := field.Invalid(field.NewPath("series.count"), "", "should be at least 2")
	long := field.TooLong(field.NewPath("metadata", "annotations"), "", 262144)
	unsupported := field.NotSupported(field.NewPath("dryRun"), "x", []string{"All"})
	forbidden := field.Forbidden(field.NewPath("metadata"), "no")
	duplicate := field.Duplicate(field.NewPath("a").Index(1), "d")
	many := field.TooMany(field.NewPath("a").Key("k"), 3, 2)
	continued := apierrors.NewResourceExpired("too old")
	continued.ErrStatus.ListMeta.Continue = "token"
	tooLarge := apierrors.NewTimeoutError("Too large resource version: 99, current: 42", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	terminating := apierrors.NewForbidden(inCore, "e", errors.New("unable to create new content in namespace x because it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating", Message: "namespace x is being terminated", Field: "metadata.namespace"}}
	return []statusSample{
		{"not-found", apierrors.NewNotFound(inCore, "x")}, {"not-found-in-the-new-group", apierrors.NewNotFound(inEvents, "x")}, {"not-found-with-odd-name", apierrors.NewNotFound(inCore, "a\"<&>\n")}, {"namespace-not-found", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x")},
		{"already-exists", apierrors.NewAlreadyExists(inCore, "x")}, {"already-exists-in-the-new-group", apierrors.NewAlreadyExists(inEvents, "x")},
		{"generated-name-taken", apierrors.NewGenerateNameConflict(inCore, "x-bcdfg", 1)},
		{"unauthorized", apierrors.NewUnauthorized("Unauthorized")}, {"unauthorized-without-text", apierrors.NewUnauthorized("")},
		{"forbidden", apierrors.NewForbidden(inCore, "x", boom)}, {"forbidden-without-name", apierrors.NewForbidden(inEvents, "", boom)}, {"forbidden-namespace-terminating", terminating}, {"forbidden-without-resource", apierrors.NewForbidden(schema.GroupResource{}, "", boom)},
		{"conflict", apierrors.NewConflict(inCore, "x", boom)}, {"conflict-in-the-new-group", apierrors.NewConflict(inEvents, "x", errors.New("the object has been modified; please apply your changes to the latest version and try again"))},
		{"apply-conflict", apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kubectl"`, Field: ".count"}}, "Apply failed with 1 conflict: conflict with \"kubectl\": .count")},
		{"gone", apierrors.NewGone("gone")}, {"expired", apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")}, {"expired-with-continue", continued},
		{"invalid-one-cause", apierrors.NewInvalid(kind, "x", field.ErrorList{required})}, {"invalid-two-causes", apierrors.NewInvalid(kind, "x", field.ErrorList{required, invalid})}, {"invalid-same-cause-twice", apierrors.NewInvalid(kind, "x", field.ErrorList{required, required})}, {"invalid-every-kind-of-cause", apierrors.NewInvalid(kind, "x", field.ErrorList{long, unsupported, forbidden, duplicate, many, field.NotFound(field.NewPath("b"), 1), field.InternalError(field.NewPath("c"), boom), field.TypeInvalid(field.NewPath("d"), 1, "must be text")})}, {"invalid-without-cause", apierrors.NewInvalid(kind, "x", nil)}, {"invalid-with-group", apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", field.ErrorList{forbidden})},
		{"bad-request", apierrors.NewBadRequest("why")}, {"too-many-requests", apierrors.NewTooManyRequests("slow down", 5)}, {"too-many-requests-without-retry", apierrors.NewTooManyRequestsError("limit reached")}, {"service-unavailable", apierrors.NewServiceUnavailable("starting")},
		{"method-not-supported", apierrors.NewMethodNotSupported(inCore, "create")}, {"server-timeout", apierrors.NewServerTimeout(inCore, "list", 2)}, {"server-timeout-for-kind", apierrors.NewServerTimeoutForKind(kind, "get", 0)}, {"internal-error", apierrors.NewInternalError(boom)}, {"timeout", apierrors.NewTimeoutError("slow", 0)}, {"timeout-with-retry", apierrors.NewTimeoutError("slow", 7)}, {"too-large-resource-version", tooLarge}, {"too-large-request", apierrors.NewRequestEntityTooLargeError("limit is 3145728")},
		{"unclassified-error", boom}, {"unclassified-error-with-odd-text", errors.New("<&>\u2028\n")},
	}
}

func plainStatuses() []struct {
	name   string
	status metav1.Status
} {
	type s = struct {
		name   string
		status metav1.Status
	}
	return []s{
		{"empty", metav1.Status{}},
		{"success", metav1.Status{Status: metav1.StatusSuccess}},
		{"deleted", metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{Name: "e", Group: "events.k8s.io", Kind: "events", UID: "u"}}},
		{"empty-details", metav1.Status{Details: &metav1.StatusDetails{}}},
		{"every-field", metav1.Status{ListMeta: metav1.ListMeta{SelfLink: "s", ResourceVersion: "1", Continue: "c"}, Status: "Failure", Message: "m", Reason: "R", Code: 599, Details: &metav1.StatusDetails{Name: "n", Group: "g", Kind: "k", UID: "u", Causes: []metav1.StatusCause{{Type: "t", Message: "m", Field: "f"}, {}}, RetryAfterSeconds: 9}}},
		{"negative-code", metav1.Status{Code: -1, Details: &metav1.StatusDetails{RetryAfterSeconds: -2}}},
	}
}

type bodyToJudge struct {
	name, verb        string
	code              int
	contentType, body string
	retryAfter        string
}

func bodiesToJudge() []bodyToJudge {
	var out []bodyToJudge
	const html = "<html><body>502 Bad Gateway</body></html>"
	for _, code := range []int{300, 304, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 418, 422, 429, 499, 500, 501, 502, 503, 504, 599} {
		out = append(out, bodyToJudge{verb: "POST", code: code, contentType: "text/html", body: html})
	}
	for _, code := range []int{409, 404, 422, 500} {
		out = append(out, bodyToJudge{verb: "PATCH", code: code, contentType: "text/plain", body: "plain"})
		out = append(out, bodyToJudge{verb: "GET", code: code, contentType: "text/plain", body: "plain"})
	}
	out = append(out,
		bodyToJudge{verb: "POST", code: 429, contentType: "text/plain", body: "Too many requests, please try again later.\n", retryAfter: "1"},
		bodyToJudge{verb: "POST", code: 503, contentType: "text/plain", body: "starting", retryAfter: "7"},
		bodyToJudge{verb: "POST", code: 503, contentType: "text/plain", body: "retry is a date", retryAfter: "Wed, 21 Oct 2026 07:28:00 GMT"},
		bodyToJudge{verb: "POST", code: 500, contentType: "text/plain", body: ""},
		bodyToJudge{verb: "POST", code: 404, contentType: "", body: "404 page not found\n"},
		bodyToJudge{verb: "POST", code: 500, contentType: "application/json", body: `{"message":"not a status"}`},
		bodyToJudge{verb: "POST", code: 500, contentType: "application/json", body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Custom","code":500}`},
		bodyToJudge{verb: "POST", code: 409, contentType: "application/json", body: `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"events \"x\" already exists","reason":"AlreadyExists","details":{"name":"x","kind":"events"},"code":409}`},
		bodyToJudge{verb: "POST", code: 403, contentType: "application/json", body: `{"kind":"Status","apiVersion":"v1","status":"Success"}`},
		bodyToJudge{verb: "POST", code: 404, contentType: "application/json", body: `{"kind":"Status","status":"Failure","reason":"NotFound"}`},
		bodyToJudge{verb: "POST", code: 500, contentType: "application/json", body: `{"kind":"Status","apiVersion":"v1","status":"Failure"`},
		bodyToJudge{verb: "POST", code: 200, contentType: "application/json", body: `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"in disguise","reason":"BadRequest","code":400}`},
		bodyToJudge{verb: "POST", code: 500, contentType: "text/plain", body: strings.Repeat("x", 3000)},
		bodyToJudge{verb: "POST", code: 500, contentType: "text/plain", body: "bad \xff bytes"},
		bodyToJudge{verb: "POST", code: 500, contentType: "text/plain", body: "  blanks around \n"},
	)
	for i := range out {
		c := &out[i]
		c.name = strings.TrimSuffix(strings.Join([]string{"judge", c.verb, http.StatusText(c.code), strings.ReplaceAll(c.contentType, "/", "-")}, "-"), "-") + "-" + itoa(i)
	}
	return out
}

// judge lets a real REST client receive the answer.
func judge(c bodyToJudge) vector {
	v := named(c.name).with("kind", "judge").with("verb", c.verb).with("http_code", c.code).with("content_type", c.contentType)
	if c.retryAfter != "" {
		v = v.with("retry_after", c.retryAfter)
	}
	v = v.text("body", []byte(c.body))
	base := must1(url.Parse("http://server/api/v1"))
	client := must1(rest.NewRESTClient(base, "", rest.ClientContentConfig{
		ContentType: "application/json", GroupVersion: coreAPI.scope.Kind.GroupVersion(),
		Negotiator: runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), coreAPI.scope.Kind.GroupVersion()),
	}, nil, &http.Client{Transport: c}))
	result := client.Verb(c.verb).MaxRetries(0).Namespace("default").Resource("events").Name("x").Do(context.Background())
	err := result.Error()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return v.with("ok", err == nil)
	}
	s := status.Status()
	return v.with("ok", false).with("error", strings.ToValidUTF8(err.Error(), "\ufffd")).text("status_json", coreAPI.encode(jsonType, &s))
}

func (c bodyToJudge) RoundTrip(req *http.Request) (*http.Response, error) {
	h := http.Header{}
	if c.contentType != "" {
		h.Set("Content-Type", c.contentType)
	}
	if c.retryAfter != "" {
		h.Set("Retry-After", c.retryAfter)
	}
	return &http.Response{StatusCode: c.code, Status: http.StatusText(c.code), Header: h, Body: io.NopCloser(strings.NewReader(c.body)), Request: req, ProtoMajor: 1, ProtoMinor: 1}, nil
}
