#include "commands/stored_places.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <queue>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace codecfs::commands {
namespace {

constexpr auto kInOrder = [](const StoredPlace& one, const StoredPlace& other) {
  return std::pair(one.offset, one.size) < std::pair(other.offset, other.size);
};

/// A file without a name, which disappears with the process.
Result<UniqueFd> open_temporary() {
  std::error_code error;
  const std::string directory = std::filesystem::temp_directory_path(error).string();
  if (error) return fail_errno(error.value(), "the directory for temporary files");
  UniqueFd file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  std::string name = directory + "/codecfs-verify-XXXXXX";  // not all filesystems have files without names
  file = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
  if (!file) return fail_errno(errno, "{}", name);
  ::unlink(name.c_str());
  return file;
}

}  // namespace

Result<> StoredPlaces::add(const StoredPlace& place) {
  if (held_.size() >= max_in_memory_) CODECFS_TRY(write_part());
  held_.push_back(place);
  return {};
}

Result<> StoredPlaces::write_part() {
  if (!file_) {
    CODECFS_ASSIGN(file_, open_temporary());
  }
  std::ranges::sort(held_, kInOrder);
  const uint64_t begin = parts_.empty() ? 0 : parts_.back().end;
  const auto bytes = std::as_bytes(std::span(held_));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count =
        ::pwrite(file_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(begin + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail_errno(count < 0 ? errno : ENOSPC, "a temporary file, to sort the places of chunks");
    done += static_cast<size_t>(count);
  }
  parts_.push_back({.next = begin, .end = begin + bytes.size(), .at = 0, .read = {}});
  held_.clear();
  return {};
}

/// False at the end of the part. `most`: places to read at once.
Result<bool> StoredPlaces::read_more(Part& part, size_t most) const {
  part.at = 0;
  part.read.resize(std::min<uint64_t>(most, (part.end - part.next) / sizeof(StoredPlace)));
  const auto bytes = std::as_writable_bytes(std::span(part.read));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count =
        ::pread(file_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(part.next + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail_errno(count < 0 ? errno : EIO, "a temporary file, to sort the places of chunks");
    done += static_cast<size_t>(count);
  }
  part.next += bytes.size();
  return !part.read.empty();
}

Result<> StoredPlaces::visit_sorted(const std::function<void(const StoredPlace&)>& visit) {
  std::ranges::sort(held_, kInOrder);
  if (parts_.empty()) {
    for (const StoredPlace& place : held_) visit(place);
    return {};
  }
  const size_t at_once = std::max<size_t>(max_in_memory_ / parts_.size(), 16);
  parts_.push_back({.next = 0, .end = 0, .at = 0, .read = std::move(held_)});
  const auto is_later = [&](size_t one, size_t other) {
    return kInOrder(parts_[other].read[parts_[other].at], parts_[one].read[parts_[one].at]);
  };
  std::priority_queue<size_t, std::vector<size_t>, decltype(is_later)> next(is_later);
  for (size_t i = 0; i < parts_.size(); ++i) {
    bool has_any = !parts_[i].read.empty();
    if (!has_any) {
      CODECFS_ASSIGN(has_any, read_more(parts_[i], at_once));
    }
    if (has_any) next.push(i);
  }
  while (!next.empty()) {
    const size_t first = next.top();
    next.pop();
    Part& part = parts_[first];
    visit(part.read[part.at]);
    bool has_more = ++part.at < part.read.size();
    if (!has_more) {
      CODECFS_ASSIGN(has_more, read_more(part, at_once));
    }
    if (has_more) next.push(first);
  }
  return {};
}

}  // namespace codecfs::commands
