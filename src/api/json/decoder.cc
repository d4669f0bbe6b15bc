#include "api/json/decoder.h"

#include "api/quote.h"

namespace herald {
namespace {

void AppendPath(const JsonFrame* frame, std::string* out) {
  if (frame == nullptr) return;
  AppendPath(frame->outer, out);
  if (!out->empty()) out->push_back('.');
  out->append(frame->field);
  if (frame->index >= 0) out->append("[" + std::to_string(frame->index) + "]");
}

// Go omits the positions in lists here.
void AppendFields(const JsonFrame* frame, std::string* out) {
  if (frame == nullptr) return;
  AppendFields(frame->outer, out);
  out->append(".").append(frame->field);
}

}  // namespace

bool FoldedEqual(std::string_view key, std::string_view name) {
  if (key.size() < name.size()) return false;
  const auto lower = [](char32_t c) -> char32_t { return c >= 'A' && c <= 'Z' ? c + 32 : c; };
  for (const char expected : name) {
    if (key.empty()) return false;
    char32_t c = TakeCodePoint(&key);
    // The two letters beyond ASCII that equal an ASCII letter.
    if (c == U'\u017f') c = 's';
    if (c == U'\u212a') c = 'k';
    if (lower(c) != lower(static_cast<unsigned char>(expected))) return false;
  }
  return key.empty();
}

void JsonDecodeErrors::WrongType(const JsonFrame& at, std::string_view found,
                                 std::string_view go_type) {
  if (!wrong_type_.empty()) return;
  wrong_type_.append("json: cannot unmarshal ").append(found);
  wrong_type_.append(" into Go struct field ").append(at.go_name);
  AppendFields(&at, &wrong_type_);
  wrong_type_.append(" of type ").append(go_type);
}

void JsonDecodeErrors::BadTime(std::string_view why) {
  if (bad_time_.empty()) bad_time_ = why;
}

// Upstream, a time decodes its own JSON, and an error there stops the decoder.
void JsonDecodeErrors::TimeOfWrongType(const JsonFrame& at, std::string_view found) {
  JsonDecodeErrors inner(nullptr);
  inner.WrongType(at, found, "string");
  BadTime(inner.wrong_type_);
}

void JsonDecodeErrors::BadTypeMeta(std::string_view field, std::string_view found) {
  if (!type_meta_error_.empty()) return;
  type_meta_error_.append("json: cannot unmarshal ").append(found).append(" into Go ");
  if (field.empty()) {
    // Upstream's type for the kind has no name, so Go prints its definition.
    type_meta_error_ +=
        "value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; "
        "Kind string \"json:\\\"kind,omitempty\\\"\" }";
  } else {
    type_meta_error_.append("struct field .").append(field).append(" of type string");
  }
}

void JsonDecodeErrors::UnknownField(const JsonFrame* outer, std::string_view key) {
  AddFieldError("unknown field ", outer, key);
}

void JsonDecodeErrors::DuplicateField(const JsonFrame* outer, std::string_view key) {
  AddFieldError("duplicate field ", outer, key);
}

void JsonDecodeErrors::AddFieldError(std::string_view what, const JsonFrame* outer,
                                     std::string_view key) {
  if (field_errors_.ignored()) return;
  std::string path;
  AppendPath(outer, &path);
  if (!path.empty()) path.push_back('.');
  path.append(key);
  std::string error(what);
  AppendQuoted(path, &error);
  field_errors_.Add(std::move(error));
}

}  // namespace herald
