#include "api/patch/patch_text.h"

#include <deque>
#include <utility>

#include "api/json/codec.h"
#include "api/json/document.h"
#include "api/patch/json_patch.h"
#include "api/patch/merge_patch.h"

namespace herald {

std::string ShownPatch(const Event& event, EventApi api, PatchType type, std::string_view patch) {
  std::string text;
  AppendEventJson(event, api, &text);
  Result<Json> document = ParseJson(text);
  Result<Json> parsed = ParseJson(patch);
  std::string shown;
  if (!document || !parsed) return shown;
  if (type == PatchType::kStrategicMerge) {
    AppendGoText(*parsed, 'v', &shown);
    return shown;
  }
  std::deque<std::string> storage;
  const Status status = type == PatchType::kMerge ? ApplyMergePatch(*std::move(parsed), &*document)
                                                  : ApplyJsonPatch(*parsed, &*document, &storage);
  if (status.ok()) AppendAsWritten(*document, &shown);
  return shown;
}

}  // namespace herald
