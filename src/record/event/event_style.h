#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "herald/api/event.h"

namespace herald {

// The style of an event: which members it has so that a server accepts it through an API.

// The reportingController and reportingInstance of a recorder, in the style of `api`. Unless
// `upstream_exact`, they are changed where events.k8s.io/v1 would reject them.
std::string ReportingController(std::string_view component, EventApi api, bool upstream_exact);
std::string ReportingInstance(std::string_view component, std::string_view host, EventApi api,
                              bool upstream_exact);

// Makes a new-style event valid: cuts strings that are too long, and sets the action, which is
// required and which the old calls do not have, to the reason.
void FitNewStyle(Event* event);

// Returns a neutral event in the style of an API. An event is neutral if its API was not known when
// it was recorded (ApiChoice): its time is event_time, its reporter is in `source` and in the
// reporting fields of the old style, and only its message was cut. With `upstream_exact` an
// old-style event has neither related object nor action, as with client-go's EventRecorderAdapter.
std::shared_ptr<const Event> InStyleOf(const Event& neutral, EventApi api, bool upstream_exact);

}  // namespace herald
