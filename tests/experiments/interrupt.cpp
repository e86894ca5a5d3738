#include "experiments/support/program/interrupt.h"

#include <csignal>

#include <boost/test/unit_test.hpp>

#include "tests/files.h"

using namespace fovea;

BOOST_AUTO_TEST_SUITE(interrupt)

BOOST_AUTO_TEST_CASE(the_first_signal_is_a_request_and_the_second_an_order) {
  for (int signal : {SIGINT, SIGTERM}) {
    Folder folder;
    int status = status_in_child([&] {
      if (!std::freopen((folder / "err").c_str(), "w", stderr)) return 99;
      InterruptGuard guard("stopping at the next step");
      if (interrupted()) return 1;
      std::raise(signal);
      if (!interrupted()) return 2;
      if (Interrupted("").exit_status() != 128 + signal) return 3;
      std::raise(signal);
      return 4;
    });
    BOOST_TEST(status == -signal);
    BOOST_TEST(contents(folder / "err") == "stopping at the next step\n");
  }
}

BOOST_AUTO_TEST_CASE(a_terminal_or_parent_that_is_gone_is_one_request) {  // a parent's threads end one by one
  Folder folder;
  int status = status_in_child([&] {
    if (!std::freopen((folder / "err").c_str(), "w", stderr)) return 99;
    std::signal(SIGHUP, SIG_DFL);  // nohup, or what else runs the tests, may have had it ignored
    InterruptGuard guard("stopping at the next step");
    for (int k = 0; k < 3; ++k) std::raise(SIGHUP);
    if (!interrupted()) return 1;
    if (Interrupted("").exit_status() != 128 + SIGHUP) return 2;
    std::raise(SIGTERM);
    return 3;
  });
  BOOST_TEST(status == -SIGTERM);
  BOOST_TEST(contents(folder / "err") == "stopping at the next step\n");
}

BOOST_AUTO_TEST_CASE(without_a_guard_signals_do_what_they_did_before) {
  int status = status_in_child([] {
    { InterruptGuard guard; }
    std::raise(SIGINT);
    return 1;
  });
  BOOST_TEST(status == -SIGINT);
}

BOOST_AUTO_TEST_CASE(an_inner_guard_changes_nothing_and_a_new_one_starts_afresh) {
  int status = status_in_child([] {
    if (!std::freopen("/dev/null", "w", stderr)) return 99;
    {
      InterruptGuard outer;
      { InterruptGuard inner; }
      std::raise(SIGINT);
      InterruptGuard late;
      if (!interrupted()) return 1;
    }
    if (!interrupted()) return 2;  // whoever asks after the loop still hears it
    InterruptGuard next;
    return interrupted() ? 3 : 0;
  });
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_CASE(mpirun_may_pass_a_signal_on_behind_the_guard) {
  int status = status_in_child([] {
    if (!std::freopen("/dev/null", "w", stderr)) return 99;
    std::signal(SIGUSR1, SIG_DFL);
    {
      InterruptGuard guard;
      std::raise(SIGUSR1);
      if (Interrupted("").exit_status() != 128 + SIGUSR1) return 1;
    }
    std::raise(SIGUSR1);
    return 0;
  });
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_CASE(a_signal_is_handled_on_a_stack_of_its_own) {  // matrix products use the stack pointer otherwise
  int status = status_in_child([] {
    InterruptGuard guard;
    for (int signal : {SIGINT, SIGTERM}) {
      struct sigaction action = {};
      ::sigaction(signal, nullptr, &action);
      if (!(action.sa_flags & SA_ONSTACK)) return 1;
    }
    stack_t stack = {};
    return ::sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) ? 2 : 0;
  });
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_CASE(an_ignored_signal_stays_ignored) {
  int status = status_in_child([] {
    std::signal(SIGINT, SIG_IGN);
    InterruptGuard guard("");
    std::raise(SIGINT);
    if (interrupted()) return 1;
    std::raise(SIGTERM);  // makes the second signal end the process, but not an ignored one
    std::raise(SIGINT);
    return interrupted() ? 0 : 2;
  });
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_SUITE_END()
