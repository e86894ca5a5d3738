#include "experiments/support/program/progress.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "experiments/support/text/utf8.h"
#include "tests/files.h"

using namespace fovea;

namespace {

/// A pseudo-terminal of a given width. The kernel keeps 4 KiB of what is written to it.
class PseudoTerminal {
 public:
  explicit PseudoTerminal(unsigned short columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    BOOST_REQUIRE((master_ >= 0 && ::grantpt(master_) == 0 && ::unlockpt(master_) == 0));
    screen = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    const winsize size{24, columns, 0, 0};
    BOOST_REQUIRE(::ioctl(screen, TIOCSWINSZ, &size) == 0);
  }
  ~PseudoTerminal() { ::close(screen), ::close(master_); }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  /// Everything that was written so far: up to a mark that is written behind it.
  std::string received() {
    constexpr char mark = '\x02';
    BOOST_REQUIRE(::write(screen, &mark, 1) == 1);
    for (char next = 0; ::read(master_, &next, 1) == 1 && next != mark;) text_ += next;
    return text_;
  }

  int screen;

 private:
  int master_;
  std::string text_;
};

/// The lines that a terminal would show: a carriage return and "erase to the end of the line" replace the last one.
std::vector<std::string> shown(const std::string& text) {
  std::vector<std::string> lines{""};
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && text.substr(i + 1, 1) != "\n")
      lines.back().clear();
    else if (text[i] == '\n')
      lines.emplace_back();
    else if (text.substr(i, 3) == "\x1b[K")
      i += 2;
    else if (text[i] != '\r')
      lines.back() += text[i];
  }
  return lines;
}

/// A clock that the test turns.
struct Clock {
  double now = 100;
  Progress::Options options(int descriptor, std::string unit = "steps") {
    return {.unit = std::move(unit), .descriptor = descriptor, .clock = [this] { return now; }};
  }
};

std::string piped(const std::function<void(int)>& write) {
  Folder folder;
  int file = ::open((folder / "log").c_str(), O_CREAT | O_WRONLY, 0600);
  write(file);
  ::close(file);
  return contents(folder / "log");
}

struct Environment {
  std::string name;
  Environment(const char* name, const char* value) : name(name) { ::setenv(name, value, 1); }
  ~Environment() { ::unsetenv(name.c_str()); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(progress)

BOOST_AUTO_TEST_CASE(a_terminal_shows_one_line_that_is_redrawn_and_ends_also_at_an_exception) {
  Environment term("TERM", "xterm");
  PseudoTerminal terminal(120);
  Clock clock;
  try {
    Progress progress("training", 400, clock.options(terminal.screen));
    for (int i = 0; i < 25; ++i) {
      clock.now += 2;
      progress.note(fmt::format("loss {:.1f}", 5.0 - i * 0.04));
      progress.advance(4);
    }
    const auto lines = shown(terminal.received());
    BOOST_REQUIRE(lines.size() == 1u);
    BOOST_TEST(lines[0] == "training: 100/400 steps (25%), 2.00 steps/s, 2:30 left, loss 4.0");
    throw std::runtime_error("out of data");
  } catch (const std::runtime_error&) {
  }
  const auto lines = shown(terminal.received());
  BOOST_REQUIRE(lines.size() == 2u);  // the line is ended, the cursor is on an empty one
  BOOST_TEST(lines[0] == "training: 100/400 steps in 0:50, 2.00 steps/s, loss 4.0");
  BOOST_TEST(lines[1] == "");
}

BOOST_AUTO_TEST_CASE(a_line_fits_every_width) {
  Environment term("TERM", "xterm");
  for (unsigned short columns : {200, 60, 20, 5, 2}) {
    PseudoTerminal terminal(columns);
    Clock clock;
    Progress progress("training", 1000, clock.options(terminal.screen));
    progress.note("loss 0.412 lr 1e-3 日本語 and much more that nobody needs");
    clock.now += 0.3;
    progress.advance(7);
    progress.finish();
    progress.finish();
    BOOST_TEST(display_width(shown(terminal.received())[0]) <= columns - 1u);
    BOOST_TEST(shown(terminal.received()).size() == 2u);
  }
}

BOOST_AUTO_TEST_CASE(redrawing_is_rare) {
  Environment term("TERM", "xterm");
  PseudoTerminal terminal(80);
  Clock clock;
  Progress progress("reading", 100000, clock.options(terminal.screen, "lines"));
  for (int i = 0; i < 100000; ++i) {
    clock.now += 0.00001;  // one second in all
    progress.advance();
  }
  auto text = terminal.received();
  BOOST_TEST(std::ranges::count(text, '\r') <= 11);
}

BOOST_AUTO_TEST_CASE(a_log_gets_plain_lines_at_growing_intervals) {
  Clock clock;
  std::string log = piped([&](int file) {
    Progress progress("training", 3000, clock.options(file));
    for (int i = 0; i < 1500; ++i) {
      clock.now += 0.125;
      progress.advance();
    }
    progress.note("loss 0.4");
    progress.finish();
  });
  BOOST_TEST(log ==
             "training: 40/3000 steps (1%), 8.00 steps/s, 6:10 left\n"
             "training: 80/3000 steps (2%), 8.00 steps/s, 6:05 left\n"
             "training: 160/3000 steps (5%), 8.00 steps/s, 5:55 left\n"
             "training: 320/3000 steps (10%), 8.00 steps/s, 5:35 left\n"
             "training: 640/3000 steps (21%), 8.00 steps/s, 4:55 left\n"
             "training: 1280/3000 steps (42%), 8.00 steps/s, 3:35 left\n"
             "training: 1500/3000 steps in 3:08, 8.00 steps/s, loss 0.4\n");
}

BOOST_AUTO_TEST_CASE(long_logs_still_say_something_every_ten_minutes) {
  Clock clock;
  std::string log = piped([&](int file) {
    Progress progress("training", 0, clock.options(file));
    for (int i = 0; i < 36000; ++i) {
      clock.now += 1;
      progress.advance();
    }
  });
  auto lines = std::ranges::count(log, '\n');
  BOOST_TEST(lines >= 60);  // ten hours
  BOOST_TEST(lines <= 70);
}

BOOST_AUTO_TEST_CASE(a_dumb_terminal_gets_no_control_characters) {
  Environment term("TERM", "dumb");
  PseudoTerminal terminal(80);
  Clock clock;
  {
    Progress progress("training", 10, clock.options(terminal.screen));
    clock.now += 20;
    progress.advance();
  }
  BOOST_TEST(!contains(terminal.received(), "\x1b"));
  BOOST_TEST(contains(terminal.received(), "training: 1/10 steps (10%)"));
}

BOOST_AUTO_TEST_CASE(a_resumed_run_counts_only_its_own_steps_in_the_rate) {
  Clock clock;
  std::string log = piped([&](int file) {
    auto options = clock.options(file);
    options.start = 2000;
    Progress progress("training", 3000, options);
    clock.now += 10;
    progress.advance(5);
  });
  BOOST_TEST(log ==
             "training: 2005/3000 steps (66%), 2.00 s/step, 33:10 left\n"
             "training: 2005/3000 steps in 0:10, 2.00 s/step\n");
}

BOOST_AUTO_TEST_CASE(times_read_naturally) {
  BOOST_TEST(duration_text(7.4) == "0:07");
  BOOST_TEST(duration_text(146) == "2:26");
  BOOST_TEST(duration_text(3723) == "1:02:03");
  BOOST_TEST(duration_text(3 * 86400 + 4 * 3600 + 600) == "3 d 04:10");
}

BOOST_AUTO_TEST_SUITE_END()
