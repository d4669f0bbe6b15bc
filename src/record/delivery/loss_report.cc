#include "record/delivery/loss_report.h"

#include <fmt/core.h>

#include <chrono>
#include <string>
#include <utility>

#include "herald/api/reference.h"

namespace herald {
namespace {

constexpr std::chrono::minutes kReportInterval{1};

constexpr Outcome kLosses[] = {Outcome::kDropped, Outcome::kRejected, Outcome::kGaveUp};

}  // namespace

LossReport::Result LossReport::Check(const OutcomeCounts& outcomes, WallTime now,
                                     SteadyTime steady) {
  std::uint64_t lost = 0;
  std::string causes;
  for (const Outcome outcome : kLosses) {
    const auto i = static_cast<std::size_t>(outcome);
    const std::uint64_t count = outcomes[i] - reported_[i];
    if (count == 0) continue;
    lost += count;
    causes += fmt::format("{}{} {}", causes.empty() ? "" : ", ", count, OutcomeName(outcome));
  }
  if (lost == 0) return {};
  if (last_report_ && steady - *last_report_ < kReportInterval) {
    return {.check_again = *last_report_ + kReportInterval};
  }
  last_report_ = steady;
  reported_ = outcomes;
  return {.event = MakeEvent(lost, causes, now)};
}

std::shared_ptr<const Event> LossReport::MakeEvent(std::uint64_t lost, std::string_view causes,
                                                   WallTime now) const {
  auto event = std::make_shared<Event>();
  event->involved_object = self_;
  event->metadata.namespace_ = self_.namespace_.empty() ? "default" : self_.namespace_;
  event->metadata.name = MakeEventName(self_.name, now);
  event->reason = "EventsLost";
  event->message = fmt::format(
      "{} lost: {}", lost == 1 ? "1 event was" : fmt::format("{} events were", lost), causes);
  event->type = kWarning;
  event->count = 1;
  event->first_timestamp = event->last_timestamp = Time(Timestamp(now).seconds(), 0);
  event->source.component = event->reporting_controller = "herald";
  return event;
}

}  // namespace herald
