#include "record/event/event_text.h"

#include <fmt/core.h>

#include "api/quote.h"

namespace herald {

std::string EventText(const Event& event) {
  const ObjectReference& object = event.involved_object;
  return fmt::format(
      "Event(v1.ObjectReference{{Kind:{}, Namespace:{}, Name:{}, UID:{}, APIVersion:{}, "
      "ResourceVersion:{}, FieldPath:{}}}): type: '{}' reason: '{}' {}",
      Quoted(object.kind), Quoted(object.namespace_), Quoted(object.name), Quoted(object.uid),
      Quoted(object.api_version), Quoted(object.resource_version), Quoted(object.field_path),
      event.type, event.reason, event.message);
}

void LogEvent(const Event& event, const LogFunction& log) {
  const ObjectReference& object = event.involved_object;
  const std::string name =
      object.namespace_.empty() ? object.name : object.namespace_ + "/" + object.name;
  LogEntry entry{.level = LogLevel::kInfo, .message = "Event occurred", .fields = {}};
  const bool old_style = event.event_time.is_zero();
  entry.fields.emplace_back("object", name);
  if (old_style) entry.fields.emplace_back("fieldPath", object.field_path);
  entry.fields.emplace_back("kind", object.kind);
  entry.fields.emplace_back("apiVersion", object.api_version);
  entry.fields.emplace_back("type", event.type);
  entry.fields.emplace_back("reason", event.reason);
  if (!old_style) entry.fields.emplace_back("action", event.action);
  entry.fields.emplace_back(old_style ? "message" : "note", event.message);
  log(entry);
}

}  // namespace herald
