#include "backends/hdf5/format/family_files.h"

#include <fcntl.h>
#include <fmt/printf.h>
#include <sys/stat.h>

#include <algorithm>

#include "backends/hdf5/format/superblock.h"

namespace codecfs::hdf5 {
namespace {

constexpr uint64_t kMaxMembers = 4096;  // each takes a file descriptor

Result<uint64_t> size_of(const File& file) {
  struct stat status{};
  if (::fstat(file.fd.get(), &status) != 0) return fail_errno(errno, "{}", file.path);
  if (!S_ISREG(status.st_mode)) return fail(EINVAL, "{}: is not a regular file", file.path);
  return static_cast<uint64_t>(status.st_size);
}

File open_member(const File& directory, const std::string& name) {
  return {.fd = UniqueFd(::openat(directory.fd.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)),
          .path = directory.path + "/" + name};
}

// The names with which all members exist, else the most likely ones. Patterns differ only from some number on.
std::string choose_pattern(const File& directory, const std::string& name, uint64_t count) {
  const std::vector<std::string> patterns = family_patterns(name);
  const auto has_last = [&](const std::string& pattern) {
    return ::faccessat(directory.fd.get(), family_member(pattern, count - 1).c_str(), F_OK, 0) == 0;
  };
  const auto found = std::ranges::find_if(patterns, has_last);
  if (found != patterns.end()) return *found;
  return patterns.empty() ? std::string() : patterns.front();
}

// What h5repack needs for the files of the split or multi driver: their name without "-m.h5" or "-s.h5".
Error multi_error(const File& directory, const std::string& name) {
  const bool usual = name.size() > 5 && name.ends_with(".h5") && name[name.size() - 5] == '-';
  const std::string plain = usual ? name.substr(0, name.size() - 5) : "NAME";
  return {
      EOPNOTSUPP,
      fmt::format("{}/{}: it is one of the files of HDF5's split or multi driver, which are not read here; make one "
                  "file of them: h5repack {} ONE.h5 (the name without \"-m.h5\" or \"-s.h5\")",
                  directory.path, name, usual ? directory.path + "/" + plain : plain)};
}

}  // namespace

std::vector<std::string> family_patterns(const std::string& name) {
  std::vector<std::string> patterns;
  for (size_t end = name.size(); end > 0; --end) {
    if (name[end - 1] != '0' || (end < name.size() && name[end] >= '0' && name[end] <= '9')) continue;
    size_t begin = end;
    while (begin > 0 && name[begin - 1] == '0') --begin;
    const auto add = [&](size_t from) {
      std::string pattern;
      for (size_t i = 0; i < name.size(); ++i) {
        if (i == from) pattern += end - from == 1 ? "%d" : fmt::format("%0{}d", end - from);
        if (i < from || i >= end) pattern += name[i] == '%' ? "%%" : std::string(1, name[i]);
      }
      patterns.push_back(std::move(pattern));
    };
    add(begin);
    for (size_t from = begin + 1; from < end; ++from) add(from);
  }
  return patterns;
}

std::string family_member(const std::string& pattern, uint64_t number) { return fmt::sprintf(pattern, number); }

Result<std::optional<FamilyFiles>> FamilyFiles::open(const File& directory, const std::string& name,
                                                     const File& first) {
  const std::optional<DriverInfo> info = driver_info(first.fd.get());
  if (!info) return std::nullopt;
  if (info->driver == DriverInfo::Driver::multi) return std::unexpected(multi_error(directory, name));
  CODECFS_ASSIGN(const uint64_t first_bytes, size_of(first));
  if (info->driver == DriverInfo::Driver::other) return open_unmarked(directory, name, first_bytes, info->file_bytes);
  FamilyFiles family;
  family.member_bytes_ = info->member_bytes;
  family.size_ = std::min(first_bytes, info->member_bytes);
  family.pattern_ = first.path;
  if (info->file_bytes <= info->member_bytes) return family;
  if (info->member_bytes == 0 || info->file_bytes / info->member_bytes >= kMaxMembers)
    return fail(EOPNOTSUPP, "{}: it is the first of a family of more than {} files ({} bytes in files of {})",
                first.path, kMaxMembers, info->file_bytes, info->member_bytes);
  const uint64_t count = (info->file_bytes - 1) / info->member_bytes + 1;
  const std::string pattern = choose_pattern(directory, name, count);
  if (pattern.empty())
    return fail(
        ENOENT,
        "{}: it is the first of a family of {} files (HDF5's family driver), but its name has no 0 to count from",
        first.path, count);
  family.pattern_ = directory.path + "/" + pattern;
  for (uint64_t number = 1; number < count; ++number) {
    File member = open_member(directory, family_member(pattern, number));
    if (!member.fd)
      return fail_errno(errno,
                        "{}: it is the first of a family of {} files (HDF5's family driver), and {} cannot be opened",
                        first.path, count, member.path);
    CODECFS_ASSIGN(const uint64_t bytes, size_of(member));
    const bool is_last = number + 1 == count;
    family.size_ = number * info->member_bytes + (is_last ? std::min(bytes, info->member_bytes) : info->member_bytes);
    family.others_.push_back(std::move(member));
  }
  return family;
}

// A family as h5repart makes it: the files fit together, and only the first one begins as an HDF5 file.
std::optional<FamilyFiles> FamilyFiles::open_unmarked(const File& directory, const std::string& name,
                                                      uint64_t member_bytes, uint64_t file_bytes) {
  if (member_bytes == 0 || file_bytes <= member_bytes || file_bytes / member_bytes >= kMaxMembers) return std::nullopt;
  const uint64_t count = (file_bytes - 1) / member_bytes + 1;
  FamilyFiles family;
  const std::string pattern = choose_pattern(directory, name, count);
  if (pattern.empty()) return std::nullopt;
  family.pattern_ = directory.path + "/" + pattern;
  family.member_bytes_ = member_bytes;
  family.size_ = file_bytes;
  for (uint64_t number = 1; number < count; ++number) {
    File member = open_member(directory, family_member(pattern, number));
    const uint64_t wanted = number + 1 == count ? file_bytes - number * member_bytes : member_bytes;
    const Result<uint64_t> bytes = member.fd ? size_of(member) : Result<uint64_t>(0);
    if (!bytes || *bytes != wanted || find_signature(member.fd.get(), 512)) return std::nullopt;
    family.others_.push_back(std::move(member));
  }
  return family;
}

Result<size_t> FamilyFiles::read(const File& first, uint64_t offset, MutableBytes to) const {
  size_t done = 0;
  while (done < to.size() && offset + done < size_) {
    const uint64_t number = (offset + done) / member_bytes_;
    const uint64_t within = (offset + done) % member_bytes_;
    const uint64_t room = std::min(member_bytes_ - within, size_ - offset - done);
    const MutableBytes part = to.subspan(done, static_cast<size_t>(std::min<uint64_t>(to.size() - done, room)));
    const File& member = number == 0 ? first : others_.at(static_cast<size_t>(number) - 1);
    CODECFS_ASSIGN(const size_t count, read_at(member, within, part));
    done += count;
    if (count < part.size()) break;  // the member is truncated
  }
  return done;
}

}  // namespace codecfs::hdf5
