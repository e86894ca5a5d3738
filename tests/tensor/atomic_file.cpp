// Files that appear whole or not at all; they have to do with no device.
#include "tensor/support/atomic_file.h"

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include <fmt/core.h>
#include <sys/resource.h>

#include "tests/files.h"
#include "tests/tensor/kernel_cases.h"

using namespace fovea;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(atomic_file, *cpu_only())

BOOST_AUTO_TEST_CASE(a_committed_file_has_exactly_what_was_written) {
  Folder folder;
  std::string expected;
  AtomicFile file(folder.path / "model.bin");
  std::mt19937 random(7);
  for (std::size_t bytes : {1u, 0u, 70001u, 300000u, 17u, 262144u, 3u}) {
    std::string part(bytes, '\0');
    for (char& c : part) c = char(random());
    expected += part;
    file.write(part);
  }
  file.commit();
  BOOST_TEST((contents(folder.path / "model.bin") == expected));
  BOOST_TEST(folder.files() == 1u);
}

BOOST_AUTO_TEST_CASE(without_commit_the_old_file_stays_and_nothing_is_left) {
  Folder folder;
  write_file_atomically(folder.path / "a", "old");
  {
    AtomicFile file(folder.path / "a");
    file.write(std::string(1000000, 'x'));
  }
  BOOST_TEST(contents(folder.path / "a") == "old");
  BOOST_TEST(folder.files() == 1u);
}

BOOST_AUTO_TEST_CASE(a_killed_writer_leaves_a_whole_file) {
  Folder folder;
  auto path = folder.path / "checkpoint";
  auto version = [](int i) { return std::string(2000000 + std::size_t(i), char('a' + i)); };
  write_file_atomically(path, version(0));
  std::mt19937 random(3);
  for (int round = 0; round < 25; ++round) {
    pid_t child = ::fork();
    if (child == 0) {
      for (int i = 0;; i = (i + 1) % 20) write_file_atomically(path, version(i));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(500 + random() % 15000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    auto found = contents(path);
    BOOST_REQUIRE(!found.empty());
    BOOST_REQUIRE((found == version(found[0] - 'a')));
    BOOST_REQUIRE(folder.files() <= 2u);  // the file and at most one .partial, however many were killed
  }
  write_file_atomically(path, "after all that");
  BOOST_TEST(contents(path) == "after all that");
  BOOST_TEST(folder.files() == 1u);
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_one_clear_error_and_the_old_file_stays) {
  Folder folder;
  auto path = folder.path / "a";
  write_file_atomically(path, "old");
  int status = status_in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{100000, 100000};  // the nearest thing to a full disk that needs no rights
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto message = message_of([&] { write_file_atomically(path, std::string(3000000, 'x')); });
    bool clear =
        contains(message, path.string() + ": cannot be written: ") && contains(message, "old file is untouched");
    if (!clear) fmt::print(stderr, "{}\n", message);
    return clear ? 0 : 1;
  });
  BOOST_TEST(status == 0);
  BOOST_TEST(contents(path) == "old");
  BOOST_TEST(folder.files() == 1u);
}

BOOST_AUTO_TEST_CASE(wrong_places_are_named) {
  Folder folder;
  auto write_to = [&](const fs::path& path) { return message_of([&] { write_file_atomically(path, "x"); }); };
  BOOST_TEST(write_to(folder.path) == folder.path.string() + ": is a directory, expected the name of a file");
  auto missing = folder.path / "no" / "a.json";
  BOOST_TEST(write_to(missing) == fmt::format("{}: cannot be written: there is no directory '{}'", missing.string(),
                                              missing.parent_path().string()));
  BOOST_TEST(write_to("/proc/a.json") == "/proc/a.json: cannot be written: no file can be made in '/proc'");
  write_file_atomically(folder.path / "file", "");
  BOOST_TEST(contains(write_to(folder.path / "file" / "a"), "not a directory"));
  BOOST_TEST(write_to("") == "cannot write a file with an empty name");
  AtomicFile done(folder.path / "b");
  done.commit();
  BOOST_CHECK_THROW(done.write("more"), Error);
  BOOST_CHECK_THROW(done.commit(), Error);
}

BOOST_AUTO_TEST_CASE(a_directory_without_permission_is_named) {
  Folder folder;
  fs::permissions(folder.path, fs::perms::owner_read | fs::perms::owner_exec);
  int status = status_in_child([&] {
    constexpr uid_t nobody = 65534;
    if (::getuid() == 0 && ::setuid(nobody) != 0) return 0;  // root may write everywhere
    auto message = message_of([&] { write_file_atomically(folder.path / "a", "x"); });
    return contains(message, "cannot be written: permission denied") ? 0 : 1;
  });
  BOOST_TEST(status == 0);
  fs::permissions(folder.path, fs::perms::owner_all);
}

BOOST_AUTO_TEST_CASE(two_writers_of_one_file_exclude_each_other) {
  Folder folder;
  AtomicFile first(folder.path / "a");
  first.write("first");
  BOOST_TEST(contains(message_of([&] { write_file_atomically(folder.path / "a", "second"); }),
                      "another process is writing this file"));
  first.commit();
  write_file_atomically(folder.path / "a", "third");
  BOOST_TEST(contents(folder.path / "a") == "third");
}

BOOST_AUTO_TEST_CASE(links_modes_and_devices_stay_what_they_are) {
  Folder folder;
  auto target = folder.path / "target", link = folder.path / "link";
  write_file_atomically(target, "old");
  fs::permissions(target, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("target", link);
  write_file_atomically(link, "new");
  BOOST_TEST(fs::is_symlink(link));
  BOOST_TEST(contents(target) == "new");
  BOOST_TEST((fs::status(target).permissions() == (fs::perms::owner_read | fs::perms::owner_write)));
  write_file_atomically("/dev/null", "gone");
  BOOST_TEST(fs::is_character_file("/dev/null"));
}

BOOST_AUTO_TEST_SUITE_END()
