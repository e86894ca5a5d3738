#include "tests/cuda_on_host/memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>

#include <sys/mman.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "tensor/error.h"

namespace fovea::cuda_on_host {

namespace {

constexpr int surroundings = 0xfb, never_written = 0xff;

void poison([[maybe_unused]] const std::byte* first, [[maybe_unused]] const std::byte* last) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(first, static_cast<std::size_t>(last - first));
#endif
}
void unpoison([[maybe_unused]] const std::byte* first, [[maybe_unused]] const std::byte* last) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(first, static_cast<std::size_t>(last - first));
#endif
}

/// The first byte of [first, last) that has another value than `surroundings`, or last.
__attribute__((no_sanitize("address"))) const std::byte* first_change(const std::byte* first, const std::byte* last) {
  constexpr std::uint64_t unchanged = std::uint64_t{surroundings} * 0x0101010101010101;
  for (std::uint64_t eight = 0; last - first >= 8; first += 8) {
    __builtin_memcpy(&eight, first, 8);
    if (eight != unchanged) break;
  }
  while (first != last && *first == std::byte{surroundings}) ++first;
  return first;
}

}  // namespace

DeviceMemory::DeviceMemory(std::size_t total) : total_(total), key_(pkey_alloc(0, PKEY_DISABLE_ACCESS)) {
  void* reserved = mmap(nullptr, range, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(reserved != MAP_FAILED, "cuda on the host: cannot reserve a range of addresses for device memory");
  begin_ = next_ = static_cast<std::byte*>(reserved);
}

std::byte* DeviceMemory::allocate(std::size_t bytes) {
  constexpr std::size_t alignment = 16;  // of the last byte's end: the widest load of a kernel
  const std::size_t rounded = std::max<std::size_t>((bytes + alignment - 1) / alignment * alignment, alignment);
  const std::size_t pages = (rounded + page - 1) / page * page;
  if (pages > total_ - in_use_ || pages + page > static_cast<std::size_t>(begin_ + range - next_)) return nullptr;
  std::byte *first_page = next_, *end = first_page + pages, *block = end - rounded;
  constexpr int both = PROT_READ | PROT_WRITE;
  if ((key_ >= 0 ? pkey_mprotect(first_page, pages, both, key_) : mprotect(first_page, pages, both)) != 0)
    return nullptr;
  if (key_ >= 0) pkey_set(key_, 0);
  next_ = end + page;  // addresses are not used twice: whoever keeps one of a freed block is stopped
  in_use_ += pages;
  std::memset(first_page, surroundings, pages);
  std::memset(block, never_written, bytes);
  poison(first_page, block);
  poison(block + bytes, end);
  blocks_[block] = {bytes, pages, first_page};
  if (!unlocked_ && key_ >= 0) pkey_set(key_, PKEY_DISABLE_ACCESS);
  if (!unlocked_ && key_ < 0) mprotect(first_page, pages, PROT_NONE);
  return block;
}

bool DeviceMemory::deallocate(const void* address) {
  auto found = blocks_.find(static_cast<std::byte*>(const_cast<void*>(address)));
  if (found == blocks_.end()) return false;
  const Block& block = found->second;
  unpoison(block.first_page, block.first_page + block.pages);
  mmap(block.first_page, block.pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  in_use_ -= block.pages;
  blocks_.erase(found);
  return true;
}

bool DeviceMemory::is_inside_a_block(const void* first, std::size_t bytes) const {
  auto* begin = static_cast<std::byte*>(const_cast<void*>(first));
  auto after = blocks_.upper_bound(begin);
  if (after == blocks_.begin()) return false;
  const auto& [start, block] = *std::prev(after);
  return begin + bytes <= start + block.bytes;
}

std::string DeviceMemory::describe(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  for (const auto& [start, block] : blocks_) {
    if (at >= block.first_page && at < start)
      return fmt::format("{} bytes before a block of {} bytes", start - at, block.bytes);
    if (at >= start && at < start + block.pages + page)
      return fmt::format("byte {} of a block of {} bytes", at - start, block.bytes);
  }
  return "memory that was freed, or never allocated";
}

void DeviceMemory::unlock() {
  if (key_ >= 0)
    pkey_set(key_, 0);
  else
    for (const auto& [start, block] : blocks_) mprotect(block.first_page, block.pages, PROT_READ | PROT_WRITE);
  unlocked_ = true;
}

void DeviceMemory::lock() {
  if (key_ >= 0)
    pkey_set(key_, PKEY_DISABLE_ACCESS);
  else
    for (const auto& [start, block] : blocks_) mprotect(block.first_page, block.pages, PROT_NONE);
  unlocked_ = false;
}

std::vector<std::byte> DeviceMemory::contents() const {
  std::vector<std::byte> all;
  for (const auto& [start, block] : blocks_) all.insert(all.end(), start, start + block.bytes);
  return all;
}

void DeviceMemory::restore(const std::vector<std::byte>& contents) {
  const std::byte* from = contents.data();
  for (const auto& [start, block] : blocks_) {
    std::memcpy(start, from, block.bytes);
    from += block.bytes;
  }
}

std::string DeviceMemory::difference(const std::vector<std::byte>& contents) const {
  const std::byte* before = contents.data();
  for (const auto& [start, block] : blocks_) {
    auto [mine, theirs] = std::mismatch(start, start + block.bytes, before);
    if (mine != start + block.bytes)
      return fmt::format("from byte {} of a block of {} bytes on", mine - start, block.bytes);
    before += block.bytes;
  }
  return {};
}

std::string DeviceMemory::repair() {
  std::string first;
  for (const auto& [start, block] : blocks_) {
    std::byte *end = start + block.bytes, *last = block.first_page + block.pages;
    const std::byte *before = first_change(block.first_page, start), *behind = first_change(end, last);
    if (before == start && behind == last) continue;
    if (first.empty())
      first = before != start ? fmt::format("{} bytes before a block of {} bytes", start - before, block.bytes)
                              : fmt::format("byte {} of a block of {} bytes", behind - start, block.bytes);
    std::fill(block.first_page, start, std::byte{surroundings});
    std::fill(end, last, std::byte{surroundings});
  }
  return first;
}

}  // namespace fovea::cuda_on_host
