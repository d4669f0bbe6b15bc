#pragma once

#include <functional>
#include <string_view>

#include "http/message.h"
#include "http/server.h"
#include "server/request_info.h"

namespace herald::server {

// Whether this is a SelfSubjectAccessReview: the question "may I?", which `kubectl auth
// can-i` and careful programs ask before they try. Everyone who is known may ask it.
bool IsAccessReview(const RequestInfo& request);

// Answers it, as JSON; `allows` is asked about what the review names. The body may be JSON or
// Kubernetes protobuf.
void AnswerAccessReview(const http::Request& request,
                        const std::function<bool(const RequestInfo&)>& allows,
                        http::Responder& responder);

}  // namespace herald::server
