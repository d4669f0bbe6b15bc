#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "herald/api/event.h"

namespace herald {

// How an event is put so that a server takes it through one API or the other.

// reportingController and reportingInstance of a recorder, in either style. Unless
// `upstream_exact`, such that events.k8s.io/v1 takes them.
std::string ReportingController(std::string_view component, EventApi api, bool upstream_exact);
std::string ReportingInstance(std::string_view component, std::string_view host, EventApi api,
                              bool upstream_exact);

// Makes an event in the new style one that the server takes: cuts what is too long, and
// fills in the action, which it asks for and the old calls have none to give.
void FitNewStyle(Event* event);

// An event whose API was not known when it was recorded (ApiChoice) is neutral: its time
// is event_time, its reporter is in `source` and in the reporting fields of the old
// style, and nothing was cut but the message. This puts it in the style of an API.
// upstream_exact: as client-go's EventRecorderAdapter has it, an event in the old style
// has neither related object nor action.
std::shared_ptr<const Event> Spelled(const Event& neutral, EventApi api, bool upstream_exact);

}  // namespace herald
