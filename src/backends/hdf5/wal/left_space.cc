#include "backends/hdf5/wal/left_space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

namespace codecfs::hdf5 {
namespace {

constexpr uint64_t kVersion = 1;
constexpr size_t kFields = 5;  // before the addresses
constexpr size_t kLargestValue = 4096;

/// The numbers in a value; empty if it is malformed.
std::vector<uint64_t> parse(std::string_view text) {
  std::vector<uint64_t> numbers;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end; ++at) {
    uint64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number, 16);
    if (error != std::errc() || (next != end && *next != ' ')) return {};
    numbers.push_back(number);
    at = next;
  }
  return numbers;
}

std::array<uint64_t, kFields> fields(const SourceIdentity& state, uint64_t bytes) {
  return {kVersion, state.size, static_cast<uint64_t>(state.mtime), state.head, bytes};
}

}  // namespace

LeftSpace read_left_space(const File& source, const SourceIdentity& now) {
  std::array<char, kLargestValue> value;
  const ssize_t size = ::fgetxattr(source.fd.get(), kLeftSpaceMark, value.data(), value.size());
  if (size <= 0) return {};
  const std::vector<uint64_t> numbers = parse({value.data(), static_cast<size_t>(size)});
  if (numbers.size() <= kFields) return {};
  const uint64_t bytes = numbers[kFields - 1];
  if (!std::ranges::equal(fields(now, bytes), std::span(numbers).first(kFields)) || bytes > now.size) return {};
  LeftSpace left{.bytes = bytes, .datasets = {numbers.begin() + kFields, numbers.end()}};
  std::ranges::sort(left.datasets);
  const auto repeated = std::ranges::unique(left.datasets);
  left.datasets.erase(repeated.begin(), repeated.end());
  return left;
}

Result<> record_left_space(FileIo& io, const File& source, const SourceIdentity& now, const LeftSpace& left) {
  std::string value;
  for (const uint64_t field : fields(now, left.bytes)) value += fmt::format("{:x} ", field);
  value += fmt::format("{:x}", fmt::join(left.datasets, " "));
  return io.set_attribute(source, kLeftSpaceMark, value);
}

Result<> remove_left_space(FileIo& io, const File& source) {
  if (::fgetxattr(source.fd.get(), kLeftSpaceMark, nullptr, 0) < 0) return {};
  CODECFS_TRY(io.remove_attribute(source, kLeftSpaceMark));
  return io.sync(source);
}

}  // namespace codecfs::hdf5
