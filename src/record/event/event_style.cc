#include "record/event/event_style.h"

#include "record/event/text_limits.h"

namespace herald {

std::string ReportingController(std::string_view component, EventApi api, bool upstream_exact) {
  // core/v1 accepts any string.
  if (upstream_exact || api == EventApi::kCoreV1) return std::string(component);
  return QualifiedName(component);
}

std::string ReportingInstance(std::string_view component, std::string_view host, EventApi api,
                              bool upstream_exact) {
  std::string name(host);
  if (api == EventApi::kEventsV1) name.insert(0, "-").insert(0, component);
  if (!upstream_exact) CutText(kMaxWord, &name);
  return name;
}

void FitNewStyle(Event* event) {
  if (event->action.empty()) event->action = event->reason;
  CutText(kMaxWord, &event->action);
  CutText(kMaxWord, &event->reason);
  CutText(kMaxNote, &event->message);
}

std::shared_ptr<const Event> InStyleOf(const Event& neutral, EventApi api, bool upstream_exact) {
  auto event = std::make_shared<Event>(neutral);
  const EventSource& source = neutral.source;
  event->reporting_controller = ReportingController(source.component, api, upstream_exact);
  event->reporting_instance = ReportingInstance(source.component, source.host, api, upstream_exact);
  if (api == EventApi::kEventsV1) {
    event->source = {};
    if (!upstream_exact) FitNewStyle(event.get());
    return event;
  }
  const MicroTime& when = neutral.event_time;
  event->first_timestamp = event->last_timestamp = Time(when.seconds(), when.nanos());
  event->count = 1;
  event->event_time = MicroTime();
  if (upstream_exact) {
    event->related.reset();
    event->action.clear();
  }
  return event;
}

}  // namespace herald
