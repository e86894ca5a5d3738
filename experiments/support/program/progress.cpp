#include "experiments/support/program/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include <fmt/core.h>

#include "experiments/support/program/spent_time.h"
#include "experiments/support/program/terminal.h"

namespace fovea {
namespace {

constexpr double redraw_interval = 0.1;
constexpr double first_line_after = 5, longest_line_interval = 600;
constexpr double rate_window = 30;  // seconds

/// "123", "12.3", "1.23"
std::string short_number(double value) {
  return fmt::format("{:.{}f}", value, value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);
}

/// "12.3 steps/s" or "2.00 s/step"
std::string rate_text(double per_second, const std::string& unit) {
  if (per_second >= 0.995) return fmt::format("{} {}/s", short_number(per_second), unit);
  return fmt::format("{} s/{}", short_number(1 / per_second), unit.substr(0, unit.size() - unit.ends_with('s')));
}

}  // namespace

std::string duration_text(double seconds) {
  constexpr double longest = 1e9;  // 30 years; longer durations are not worth printing
  auto s = std::int64_t(std::round(std::clamp(seconds, 0.0, longest)));
  std::int64_t days = s / 86400, hours = s / 3600 % 24, minutes = s / 60 % 60;
  if (days > 0) return fmt::format("{} d {:02}:{:02}", days, hours, minutes);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, s % 60);
  return fmt::format("{}:{:02}", minutes, s % 60);
}

Progress::Progress(std::string title, std::int64_t total, Options options)
    : title_(std::move(title)),
      options_(std::move(options)),
      total_(total),
      done_(options_.start),
      is_redrawn_(can_redraw(options_.descriptor)) {
  if (!options_.clock) options_.clock = [] { return SpentTime::until_now().wall; };
  began_ = options_.clock();
  next_ = began_ + (is_redrawn_ ? 0 : first_line_after);
  recent_.push_back({began_, done_});
}

Progress::~Progress() { finish(); }

void Progress::advance(std::int64_t count) {
  done_ += count;
  if (const double now = options_.clock(); now >= next_) show(now, false);
}

void Progress::finish() {
  if (!std::exchange(is_finished_, true)) show(options_.clock(), true);
}

void Progress::show(double now, bool is_last) {
  std::string text = line(now, is_last);
  if (is_redrawn_)  // the last column would wrap on some terminals
    text = "\r" + shortened(text, std::max<std::size_t>(terminal_width(options_.descriptor), 2) - 1) + "\x1b[K";
  ::dprintf(options_.descriptor, "%s%s", text.c_str(), is_last || !is_redrawn_ ? "\n" : "");
  next_ = now + (is_redrawn_ ? redraw_interval : std::min(now - began_, longest_line_interval));
  if (now - recent_.back().time >= rate_window / 60) recent_.push_back({now, done_});
  while (recent_.size() > 2 && recent_[1].time < now - rate_window) recent_.pop_front();
}

std::string Progress::line(double now, bool is_last) const {
  std::string text =
      fmt::format("{}: {}{} {}", title_, done_, total_ > 0 ? fmt::format("/{}", total_) : "", options_.unit);
  if (is_last) text += " in " + duration_text(now - began_);
  if (total_ > 0 && !is_last) text += fmt::format(" ({}%)", 100 * done_ / total_);
  const Sample since = is_last ? Sample{began_, options_.start} : recent_.front();
  const double per_second = now > since.time ? double(done_ - since.done) / (now - since.time) : 0;
  if (per_second > 0) text += ", " + rate_text(per_second, options_.unit);
  if (per_second > 0 && !is_last && done_ < total_)
    text += fmt::format(", {} left", duration_text(double(total_ - done_) / per_second));
  return note_.empty() ? text : text + ", " + printable(note_);
}

}  // namespace fovea
