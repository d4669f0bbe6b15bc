#include "record/event/text_limits.h"

#include <algorithm>

#include "api/validation/object_meta.h"

namespace herald {
namespace {

// Marks a string that was cut.
constexpr std::string_view kCut = "...";

// The maximum number of bytes of a UTF-8 character after the first.
constexpr std::size_t kMaxContinuation = 3;

constexpr std::size_t kMaxNamePart = 63;     // behind the slash
constexpr std::size_t kMaxPrefixPart = 253;  // before it: a DNS subdomain

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsAlphanumeric(char c) { return IsLower(c) || IsUpper(c) || IsDigit(c); }

// Removes characters that are not alphanumeric from both ends, and cuts to the limit.
std::string Trimmed(std::string text, std::size_t limit) {
  text.erase(text.begin(), std::ranges::find_if(text, IsAlphanumeric));
  if (text.size() > limit) text.resize(limit);
  while (!text.empty() && !IsAlphanumeric(text.back())) text.pop_back();
  return text;
}

// Replaces each character that is invalid in a part of a name by '-'.
std::string NamePart(std::string_view text) {
  std::string part;
  for (const char c : text) {
    if (IsContinuation(c)) continue;
    part.push_back(IsAlphanumeric(c) || c == '-' || c == '_' || c == '.' ? c : '-');
  }
  return Trimmed(std::move(part), kMaxNamePart);
}

// Makes each label of a domain valid, and drops empty ones.
std::string PrefixPart(std::string_view text) {
  std::string domain;
  while (!text.empty()) {
    const std::size_t dot = std::min(text.find('.'), text.size());
    std::string label;
    for (const char c : text.substr(0, dot)) {
      if (IsContinuation(c)) continue;
      const char lower = IsUpper(c) ? static_cast<char>(c - 'A' + 'a') : c;
      label.push_back(IsLower(lower) || IsDigit(lower) ? lower : '-');
    }
    label = Trimmed(std::move(label), kMaxPrefixPart);
    if (!label.empty()) domain.append(domain.empty() ? "" : ".").append(label);
    text.remove_prefix(std::min(dot + 1, text.size()));
  }
  return Trimmed(std::move(domain), kMaxPrefixPart);
}

}  // namespace

void CutText(std::size_t limit, std::string* text) {
  if (text->size() <= limit) return;
  const std::size_t longest = limit - kCut.size();
  std::size_t end = longest;
  while (end > 0 && longest - end < kMaxContinuation && IsContinuation((*text)[end])) --end;
  text->resize(IsContinuation((*text)[end]) ? longest : end);
  text->append(kCut);
}

std::string QualifiedName(std::string_view text) {
  if (IsQualifiedName(text).empty()) return std::string(text);
  const std::size_t slash = text.find('/');
  const bool has_prefix = slash != std::string_view::npos;
  std::string name = NamePart(has_prefix ? text.substr(slash + 1) : text);
  const std::string prefix = has_prefix ? PrefixPart(text.substr(0, slash)) : "";
  if (name.empty()) return prefix.empty() ? "unknown" : Trimmed(prefix, kMaxNamePart);
  return prefix.empty() ? name : prefix + "/" + name;
}

}  // namespace herald
