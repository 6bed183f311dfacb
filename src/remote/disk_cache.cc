#include "remote/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "base/directory_stream.h"
#include "base/log.h"
#include "remote/signature.h"

namespace codecfs::remote {
namespace {

constexpr std::array<char, 8> kMagic = {'c', 'd', 'c', 'f', 's', 'r', 'g', '1'};
constexpr const char* kState = "state";
constexpr uint64_t kLongestRange = uint64_t{64} << 20;  // bytes of a file
constexpr uint64_t kLongestEtag = 1024;                 // bytes
constexpr int64_t kFresh = 60;                          // seconds in which a use is not recorded again
constexpr int64_t kAbandoned = 3600;                    // seconds after which a file that was not renamed is deleted

struct Header {
  std::array<char, 8> magic = kMagic;
  uint64_t state = 0;  // of the object
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t content = 0;  // CRC-32 of the bytes
  uint32_t own = 0;      // of the header before this field
};

/// Of a file that has a part; the ETag and the bytes follow.
struct PartHeader {
  std::array<char, 8> magic = {'c', 'd', 'c', 'f', 's', 'p', 't', '1'};
  uint64_t total = 0;  // bytes of the object
  int64_t modified = 0;
  uint64_t size = 0;       // bytes
  uint32_t etag_size = 0;  // bytes
  uint32_t content = 0;    // CRC-32 of the ETag and the bytes
  uint32_t unused = 0;
  uint32_t own = 0;  // of the header before this field
};

uint32_t checksum(const void* bytes, size_t size) { return ::libdeflate_crc32(0, bytes, size); }
uint32_t own_checksum(const Header& header) { return checksum(&header, offsetof(Header, own)); }
uint32_t own_checksum(const PartHeader& header) { return checksum(&header, offsetof(PartHeader, own)); }
uint32_t content_checksum(std::string_view etag, Bytes bytes) {
  return ::libdeflate_crc32(checksum(etag.data(), etag.size()), bytes.data(), bytes.size());
}

std::string hash_of(const std::string& text) { return sha256_hex(std::as_bytes(std::span(text))); }
/// Differs from the name of the folder of an object with the same key.
std::string parts_folder(const std::string& directory) { return hash_of("parts of objects in " + directory); }

bool are_hex_digits(std::string_view text, size_t count) {
  return text.size() == count && text.find_first_not_of("0123456789abcdef") == text.npos;
}
/// The folder of an object, or of the parts of objects in a directory.
bool is_cache_folder(std::string_view name) { return are_hex_digits(name, 64); }
/// What the cache writes in such a folder, also before it is renamed.
bool is_cache_file(std::string_view name) {
  const size_t dash = name.find('-');
  const bool is_range = dash != name.npos && are_hex_digits(name.substr(0, dash), 16) &&
                        name.find_first_not_of("0123456789-", dash) == name.npos;
  return name == kState || name.starts_with(".new-") || are_hex_digits(name, 64) || is_range;
}

bool is_own_file(int fd, struct stat& status) {
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
}

UniqueFd open_folder_in(int directory, const char* name) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd fd(::openat(directory, name, kFlags));
  struct stat status;
  if (!fd || ::fstat(fd.get(), &status) != 0 || status.st_uid != ::geteuid()) return {};
  return fd;
}

std::vector<std::string> names_in(const UniqueFd& folder) {
  std::vector<std::string> names;
  const int again = ::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const DirectoryStream stream(again < 0 ? nullptr : ::fdopendir(again));
  if (!stream && again >= 0) ::close(again);
  while (const dirent* entry = stream ? ::readdir(stream.get()) : nullptr)
    if (entry->d_name[0] != '.' || std::string_view(entry->d_name).starts_with(".new-"))
      names.emplace_back(entry->d_name);
  return names;
}

bool read_all(int fd, void* to, size_t size, off_t at) {
  for (size_t done = 0; done < size;) {
    const ssize_t count = ::pread(fd, static_cast<char*>(to) + done, size - done, at + static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

bool write_all(int fd, Bytes bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

/// Writes aside and renames. Returns whether it could; errno says why not.
bool write_file(const UniqueFd& folder, const std::string& name, Bytes head, Bytes bytes) {
  static std::atomic<uint64_t> number = 0;
  const std::string aside = fmt::format(".new-{}-{}", ::getpid(), ++number);
  const UniqueFd fd(::openat(folder.get(), aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return false;
  if (write_all(fd.get(), head) && write_all(fd.get(), bytes) &&
      ::renameat(folder.get(), aside.c_str(), folder.get(), name.c_str()) == 0)
    return true;
  const int error = errno;
  (void)::unlinkat(folder.get(), aside.c_str(), 0);
  errno = error;
  return false;
}

void tell_unwritable() {
  static std::atomic<bool> was_told = false;
  if (!was_told.exchange(true)) log::warning("the cache on disk cannot be written: {}", std::strerror(errno));
}

/// Trims by the times of files: so long after a use, they say that a file is in use again.
void note_use(const UniqueFd& file, const struct stat& status) {
  if (::time(nullptr) - status.st_mtim.tv_sec > kFresh) (void)::futimens(file.get(), nullptr);
}

}  // namespace

Result<std::shared_ptr<DiskCache>> DiskCache::open(const std::string& directory, uint64_t most_bytes) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno(errno, "the cache {}", directory);
  struct stat status;
  // Another user's link may lead to any directory of this one.
  if (::lstat(directory.c_str(), &status) == 0 && S_ISLNK(status.st_mode) && status.st_uid != ::geteuid())
    return fail(EACCES, "the cache {} is a link of another user", directory);
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fstat(fd.get(), &status) != 0) return fail_errno(errno, "the cache {}", directory);
  if (status.st_uid != ::geteuid()) return fail(EACCES, "the cache {} belongs to another user", directory);
  if ((status.st_mode & 0022) != 0) return fail(EACCES, "the cache {} may be written by other users", directory);
  if (::faccessat(fd.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) return fail_errno(errno, "the cache {}", directory);
  std::shared_ptr<DiskCache> cache(new DiskCache(std::move(fd), most_bytes));
  cache->trim();
  return cache;
}

std::unique_ptr<DiskCache::Object> DiskCache::object(const std::string& identity) {
  const std::string name = hash_of(identity);
  (void)::mkdirat(directory_.get(), name.c_str(), 0700);
  UniqueFd folder = open_folder_in(directory_.get(), name.c_str());
  return folder ? std::make_unique<Object>(*this, std::move(folder)) : nullptr;
}

void DiskCache::note_written(uint64_t bytes) {
  // A file counts for as many bytes as would make too many of such files too many bytes.
  if ((written_ += std::max(bytes, most_bytes_ / kMaxFiles)) > most_bytes_ / 16) trim();
}

void DiskCache::trim() {
  std::unique_lock lock(trimming_, std::try_to_lock);
  if (!lock) return;
  written_ = 0;
  struct Found {
    timespec used;
    uint64_t bytes;
    std::string folder;
    std::string name;
  };
  std::vector<Found> files;
  uint64_t total = 0;
  const int64_t now = ::time(nullptr);
  // A user may name a directory that has other files.
  for (const std::string& folder : names_in(directory_)) {
    const UniqueFd fd = is_cache_folder(folder) ? open_folder_in(directory_.get(), folder.c_str()) : UniqueFd();
    if (!fd) continue;
    for (const std::string& name : names_in(fd)) {
      struct stat status;
      if (!is_cache_file(name)) continue;
      if (::fstatat(fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
      if (name.starts_with('.') && now - status.st_mtim.tv_sec < kAbandoned) continue;
      const auto bytes = static_cast<uint64_t>(status.st_blocks) * 512;
      total += bytes;
      files.push_back({name.starts_with('.') ? timespec{} : status.st_mtim, bytes, folder, name});
    }
  }
  if (total <= most_bytes_ && files.size() <= kMaxFiles) return;
  uint64_t left = files.size();
  const auto is_older = [](const Found& a, const Found& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  };
  std::ranges::sort(files, is_older);
  for (const Found& file : files) {
    if (total <= most_bytes_ / 10 * 9 && left <= kMaxFiles / 10 * 9) break;
    if (::unlinkat(directory_.get(), (file.folder + "/" + file.name).c_str(), 0) == 0) {
      total -= file.bytes;
      --left;
    }
    (void)::unlinkat(directory_.get(), file.folder.c_str(), AT_REMOVEDIR);  // if it is empty now
  }
}

std::optional<ObjectPart> DiskCache::find_part(const std::string& directory, const std::string& name) const {
  const UniqueFd folder = open_folder_in(directory_.get(), parts_folder(directory).c_str());
  if (!folder) return std::nullopt;
  const std::string file = hash_of(name);
  const UniqueFd fd(::openat(folder.get(), file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  if (!fd || !is_own_file(fd.get(), status)) return std::nullopt;
  const auto content = [&]() -> std::optional<ObjectPart> {
    PartHeader header;
    if (!read_all(fd.get(), &header, sizeof header, 0) || header.magic != PartHeader{}.magic ||
        header.own != own_checksum(header) || header.size > kLongestRange || header.etag_size > kLongestEtag ||
        static_cast<uint64_t>(status.st_size) != sizeof header + header.etag_size + header.size)
      return std::nullopt;
    auto bytes = Buffer::allocate(header.size);
    if (!bytes) return std::nullopt;
    ObjectPart part{.bytes = *std::move(bytes),
                    .etag = std::string(header.etag_size, '\0'),
                    .total = header.total,
                    .modified = header.modified};
    if (!read_all(fd.get(), part.etag.data(), part.etag.size(), sizeof header) ||
        !read_all(fd.get(), part.bytes.data(), part.bytes.size(), sizeof header + header.etag_size) ||
        header.content != content_checksum(part.etag, part.bytes.bytes()))
      return std::nullopt;
    return part;
  };
  auto part = content();
  if (part) {
    note_use(fd, status);
  } else {
    log::debug("{} in the cache on disk is damaged", file);
    (void)::unlinkat(folder.get(), file.c_str(), 0);
  }
  return part;
}

void DiskCache::store_part(const std::string& directory, const std::string& name, const ObjectPart& part) {
  if (part.etag.empty() || part.etag.size() > kLongestEtag || part.bytes.size() == 0 ||
      part.bytes.size() > kLongestRange)
    return;
  PartHeader header{.total = part.total, .modified = part.modified, .size = part.bytes.size()};
  header.etag_size = static_cast<uint32_t>(part.etag.size());
  header.content = content_checksum(part.etag, part.bytes.bytes());
  header.own = own_checksum(header);
  std::string head(reinterpret_cast<const char*>(&header), sizeof header);
  head += part.etag;
  const std::string folder_name = parts_folder(directory);
  (void)::mkdirat(directory_.get(), folder_name.c_str(), 0700);
  const UniqueFd folder = open_folder_in(directory_.get(), folder_name.c_str());
  if (!folder || !write_file(folder, hash_of(name), std::as_bytes(std::span(head)), part.bytes.bytes()))
    return tell_unwritable();
  note_written(sizeof header + part.etag.size() + part.bytes.size());
}

std::optional<DiskCache::Object::State> DiskCache::Object::state() const {
  const UniqueFd fd(::openat(folder_.get(), kState, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  constexpr off_t kLongest = 4096;
  if (!fd || !is_own_file(fd.get(), status) || status.st_size > kLongest) return std::nullopt;
  std::string text(static_cast<size_t>(status.st_size), '\0');
  if (!read_all(fd.get(), text.data(), text.size(), 0)) return std::nullopt;
  // Checksum, size, time, ETag, each on a line.
  State state;
  uint32_t sum = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](auto& value) {
    const auto [next, error] = std::from_chars(at, end, value);
    at = next + 1;
    return error == std::errc() && next != end && *next == '\n';
  };
  if (!number(sum)) return std::nullopt;
  if (checksum(at, static_cast<size_t>(end - at)) != sum || !number(state.size) || !number(state.modified))
    return std::nullopt;
  state.etag.assign(at, end);
  return state.etag.empty() ? std::nullopt : std::optional(state);
}

void DiskCache::Object::use(const State& state) {
  const std::string hash = hash_of(state.etag);
  prefix_ = hash.substr(0, 16) + "-";
  (void)std::from_chars(hash.data() + 16, hash.data() + 32, state_id_, 16);
  const auto known = this->state();
  if (!known || known->etag != state.etag || known->size != state.size) {
    const std::string text = fmt::format("{}\n{}\n{}", state.size, state.modified, state.etag);
    const std::string head = fmt::format("{}\n", checksum(text.data(), text.size()));
    (void)write_file(folder_, kState, std::as_bytes(std::span(head)), std::as_bytes(std::span(text)));
  }
  for (const std::string& name : names_in(folder_))
    if (name != kState && !name.starts_with(prefix_) && !name.starts_with('.'))
      (void)::unlinkat(folder_.get(), name.c_str(), 0);
  const LockGuard lock(mutex_);
  list();
}

void DiskCache::Object::list() {
  struct stat status;
  if (::fstat(folder_.get(), &status) != 0) return;
  listed_ = status.st_mtim;
  ranges_.clear();
  for (const std::string& name : names_in(folder_)) {
    if (!name.starts_with(prefix_)) continue;
    ByteRange range;
    const char* const end = name.data() + name.size();
    const auto offset = std::from_chars(name.data() + prefix_.size(), end, range.offset);
    if (offset.ec != std::errc() || offset.ptr == end || *offset.ptr != '-') continue;
    const auto size = std::from_chars(offset.ptr + 1, end, range.size);
    if (size.ec != std::errc() || size.ptr != end || range.size > kLongestRange) continue;
    uint64_t& known = ranges_[range.offset];
    known = std::max(known, range.size);
  }
}

std::string DiskCache::Object::name_of(const ByteRange& range) const {
  return fmt::format("{}{}-{}", prefix_, range.offset, range.size);
}

void DiskCache::Object::store(const ByteRange& range, Bytes bytes) {
  if (prefix_.empty() || range.size > kLongestRange || bytes.size() != range.size || bytes.empty()) return;
  Header header{.state = state_id_, .offset = range.offset, .size = range.size};
  header.content = checksum(bytes.data(), bytes.size());
  header.own = own_checksum(header);
  if (!write_file(folder_, name_of(range), std::as_bytes(std::span(&header, 1)), bytes)) return tell_unwritable();
  {
    const LockGuard lock(mutex_);
    uint64_t& known = ranges_[range.offset];
    known = std::max(known, range.size);
  }
  cache_.note_written(range.size);
}

/// The file of exactly this range.
std::optional<Buffer> DiskCache::Object::read(const ByteRange& range) const {
  const std::string name = name_of(range);
  const UniqueFd fd(::openat(folder_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  if (!fd || !is_own_file(fd.get(), status)) return std::nullopt;
  Header header;
  const bool has_size = static_cast<uint64_t>(status.st_size) == sizeof header + range.size;
  auto bytes = Buffer::allocate(range.size);
  if (!bytes) return std::nullopt;
  const bool is_good = has_size && read_all(fd.get(), &header, sizeof header, 0) && header.magic == kMagic &&
                       header.own == own_checksum(header) && header.state == state_id_ &&
                       header.offset == range.offset && header.size == range.size &&
                       read_all(fd.get(), bytes->data(), range.size, sizeof header) &&
                       header.content == checksum(bytes->data(), bytes->size());
  if (!is_good) {
    log::debug("{} in the cache on disk is damaged", name);
    (void)::unlinkat(folder_.get(), name.c_str(), 0);
    return std::nullopt;
  }
  note_use(fd, status);
  return *std::move(bytes);
}

/// The files that have all of a range together, by offset; empty if there are none.
std::vector<ByteRange> DiskCache::Object::files_of(const ByteRange& range) const {
  std::vector<ByteRange> files;
  for (uint64_t at = range.offset; at < range.end();) {
    auto file = ranges_.upper_bound(at);
    const auto has = [&] { return at - file->first < kLongestRange && file->first + file->second > at; };
    do {
      if (file == ranges_.begin() || at - std::prev(file)->first >= kLongestRange) return {};
      --file;
    } while (!has());
    files.push_back({file->first, file->second});
    at = files.back().end();
  }
  return files;
}

std::optional<Buffer> DiskCache::Object::find(const ByteRange& range) {
  if (prefix_.empty() || range.size == 0) return std::nullopt;
  std::vector<ByteRange> files;
  {
    const LockGuard lock(mutex_);
    files = files_of(range);
    struct stat status;
    const bool is_listed = ::fstat(folder_.get(), &status) != 0 ||
                           (status.st_mtim.tv_sec == listed_.tv_sec && status.st_mtim.tv_nsec == listed_.tv_nsec);
    if (files.empty() && !is_listed) {
      list();  // another process has added files, perhaps
      files = files_of(range);
    }
  }
  if (files.empty()) return std::nullopt;
  auto bytes = Buffer::allocate(range.size);
  if (!bytes) return std::nullopt;
  uint64_t at = range.offset;
  for (const ByteRange& file : files) {
    const auto content = read(file);
    if (!content) {
      const LockGuard lock(mutex_);
      ranges_.erase(file.offset);
      return std::nullopt;
    }
    const uint64_t end = std::min(range.end(), file.end());
    std::memcpy(bytes->data() + (at - range.offset), content->data() + (at - file.offset), end - at);
    at = end;
  }
  return *std::move(bytes);
}

}  // namespace codecfs::remote
