#include "experiments/support/program/progress.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <fmt/core.h>

#include "experiments/support/program/terminal.h"

namespace fovea {
namespace {

constexpr double redraw_interval = 0.1;
constexpr double first_line_after = 5, longest_line_interval = 600;
constexpr double rate_window = 30;  // seconds
constexpr std::size_t widest_bar = 40, narrowest_bar = 8;

double monotonic_seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

/// 12.3k, 123, 12.3, 1.23
std::string short_number(double value) {
  const char* suffix = "";
  for (const char* next : {"k", "M", "G"}) {
    if (value < 9999.5) break;
    value /= 1000;
    suffix = next;
  }
  int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, decimals, suffix);
}

std::string singular(const std::string& unit) { return unit.ends_with('s') ? unit.substr(0, unit.size() - 1) : unit; }

std::string repeated(const char* glyph, std::size_t count) {
  std::string result;
  for (std::size_t i = 0; i < count; ++i) result += glyph;
  return result;
}

/// Whether the locale was set to plain ASCII. Without a locale, terminals are assumed to understand UTF-8.
bool wants_ascii() {
  const char* locale = std::getenv("LC_ALL");
  return locale && (std::string_view(locale) == "C" || std::string_view(locale) == "POSIX");
}

std::string drawn_bar(double fraction, std::size_t columns, bool colour) {
  auto full = std::size_t(fraction * double(columns));
  if (wants_ascii()) return std::string(full, '#') + std::string(columns - full, '-');
  std::string done = repeated("━", full);
  if (!colour) return done + repeated("─", columns - full);
  return "\x1b[32m" + done + "\x1b[39;2m" + repeated("━", columns - full) + "\x1b[0m";
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
    : title_(std::move(title)), options_(std::move(options)), total_(total), done_(options_.start) {
  if (!options_.clock) options_.clock = monotonic_seconds;
  if (options_.style == Style::automatic) options_.style = can_redraw(options_.descriptor) ? Style::bar : Style::lines;
  began_ = options_.clock();
  recent_.push_back({began_, done_});
  next_refresh_ = began_ + first_line_after;
  if (options_.style == Style::bar) refresh(began_);
}

Progress::~Progress() { finish(); }

void Progress::advance(std::int64_t count) {
  done_ += count;
  double now = options_.clock();
  if (now >= next_refresh_) refresh(now);
}

void Progress::refresh(double now) {
  if (options_.style == Style::bar) {
    if (now - recent_.back().time >= rate_window / 60) recent_.push_back({now, done_});
    while (recent_.size() > 2 && recent_[1].time < now - rate_window) recent_.pop_front();
    draw(now, false);
    next_refresh_ = now + redraw_interval;
  } else {
    write(plain_line(now, false));
    recent_ = {{now, done_}};  // each line gives the rate since the last
    next_refresh_ = now + std::min(now - began_, longest_line_interval);
  }
}

void Progress::draw(double now, bool is_last) {
  write(bar_line(now, is_last) + (is_last ? "\n" : ""));
  is_drawn_ = true;
}

void Progress::print(std::string_view line) {
  if (options_.style == Style::silent) return;
  write((is_drawn_ ? "\r\x1b[K" : "") + std::string(line) + "\n");
  if (options_.style == Style::bar) refresh(options_.clock());
}

void Progress::finish() {
  if (is_finished_) return;
  is_finished_ = true;
  double now = options_.clock();
  if (options_.style == Style::bar) draw(now, true);
  if (options_.style == Style::lines) write(plain_line(now, true));
}

double Progress::rate(double now, bool over_all) const {
  Sample since = over_all ? Sample{began_, options_.start} : recent_.front();
  return now > since.time ? double(done_ - since.done) / (now - since.time) : 0;
}

std::string Progress::rate_text(double now, bool over_all) const {
  double per_second = rate(now, over_all);
  if (per_second <= 0) return "";
  bool is_slow = per_second < 0.995;
  return is_slow ? fmt::format("{} s/{}", short_number(1 / per_second), singular(options_.unit))
                 : fmt::format("{} {}/s", short_number(per_second), options_.unit);
}

std::string Progress::time_left(double now) const {
  double per_second = rate(now, false);
  if (total_ <= 0 || done_ >= total_ || per_second <= 0) return "";
  return duration_text(double(total_ - done_) / per_second) + " left";
}

/// "1204/3000 steps · 12.3 steps/s · 2:26 left · loss 0.412"
std::string Progress::state(double now, bool is_last) const {
  std::string text =
      total_ > 0 ? fmt::format("{}/{} {}", done_, total_, options_.unit) : fmt::format("{} {}", done_, options_.unit);
  for (const std::string& part :
       {rate_text(now, is_last), is_last ? duration_text(now - began_) : time_left(now), printable(note_)}) {
    if (!part.empty()) text += " · " + part;
  }
  return text;
}

std::string Progress::bar_line(double now, bool is_last) const {
  std::size_t width = terminal_width(options_.descriptor);
  std::size_t usable = width > 1 ? width - 1 : 1;  // the last column would wrap on some terminals
  const std::string text = state(now, is_last);
  std::size_t taken = display_width(title_) + 1 + display_width(text) + 1;
  std::size_t columns = taken < usable ? std::min(widest_bar, usable - taken) : 0;
  bool has_bar = total_ > 0 && columns >= narrowest_bar;
  if (!has_bar) return "\r" + shortened(title_ + " " + text, usable) + "\x1b[K";
  double fraction = std::clamp(double(done_) / double(total_), 0.0, 1.0);
  return "\r" + title_ + " " + drawn_bar(fraction, columns, wants_colour(options_.descriptor)) + " " + text + "\x1b[K";
}

std::string Progress::plain_line(double now, bool is_last) const {
  std::string text = total_ > 0 ? fmt::format("{}: {}/{} {}", title_, done_, total_, options_.unit)
                                : fmt::format("{}: {} {}", title_, done_, options_.unit);
  if (total_ > 0 && !is_last) text += fmt::format(" ({:.0f}%)", std::floor(100 * double(done_) / double(total_)));
  for (const std::string& part : {is_last ? "in " + duration_text(now - began_) : "", rate_text(now, is_last),
                                  is_last ? "" : time_left(now), printable(note_)}) {
    bool is_time = part.starts_with("in ");
    if (!part.empty()) text += (is_time ? " " : ", ") + part;
  }
  return text + "\n";
}

void Progress::write(std::string_view text) const {
  // a failure to show progress must not stop the work
  while (!text.empty()) {
    ssize_t written = ::write(options_.descriptor, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(std::size_t(written));
  }
}

}  // namespace fovea
