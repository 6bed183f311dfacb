#include "backends/hdf5/wal/write_log_search.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <charconv>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/hdf5/wal/log_directories.h"
#include "base/file_name.h"

namespace codecfs::hdf5 {
namespace {

constexpr size_t kIdDigits = 16;
constexpr size_t kLargestMark = 64 << 10;

struct Mark {
  uint64_t id = 0;
  std::string directory;
  std::string name;  // of the log; empty if the mark is damaged
};

std::optional<Mark> read_mark(int source) {
  std::vector<char> value(kLargestMark);
  const ssize_t size = ::fgetxattr(source, kLogMark, value.data(), value.size());
  if (size < 0) return std::nullopt;
  const std::string_view text(value.data(), static_cast<size_t>(size));
  Mark mark;
  if (text.size() < kIdDigits + 2 || text[kIdDigits] != ' ' || text[kIdDigits + 1] != '/') return mark;
  const char* id_end = text.data() + kIdDigits;
  if (std::from_chars(text.data(), id_end, mark.id, 16).ptr != id_end) return mark;
  const std::string_view path = text.substr(kIdDigits + 1);
  const size_t slash = path.rfind('/');
  const std::string name(path.substr(slash + 1));
  if (!is_log_name(name) || path.find('\0') != path.npos) return mark;
  mark.directory = slash == 0 ? "/" : path.substr(0, slash);
  mark.name = name;
  return mark;
}

bool same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/// Whether a writer holds the lock on the log.
bool is_in_use(const File& directory, const std::string& name) {
  const UniqueFd log(::openat(directory.fd.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return log && ::flock(log.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/// Whether a file other than the source has the name for which a log was created, so that the log may be that file's.
/// If the source has no mark, the name alone decides, to avoid reading every log of a directory for each file in it.
bool belongs_to_another(const File& directory, const std::string& name, const LogHeader& header, const File& source,
                        bool is_marked) {
  struct stat own;
  if (::fstat(source.fd.get(), &own) != 0) return true;
  if (header.source.device == own.st_dev && header.source.inode == own.st_ino) return false;
  const std::string namesake = source_name_for(name);
  if (namesake.empty()) return true;  // it is unknown which file that is
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const File other{.fd = UniqueFd(::openat(directory.fd.get(), namesake.c_str(), kFlags)), .path = namesake};
  if (!other.fd) return errno != ENOENT;
  struct stat theirs;
  if (::fstat(other.fd.get(), &theirs) != 0) return true;
  if (same_file(own, theirs) || !S_ISREG(theirs.st_mode)) return false;
  if (!is_marked) return true;
  const auto read = read_log(directory, name, other, LogAccess::read);
  return read && (*read || log_exists(directory, name));
}

class Search {
 public:
  Search(const File& directory, const std::string& source_name, const File& source, LogAccess access)
      : directory_(directory),
        own_name_(log_name_for(source_name)),
        source_(source),
        access_(access),
        mark_(read_mark(source.fd.get())) {}

  Result<FoundLog> run() {
    auto own = read_log(directory_, own_name_, source_, access_);
    const bool is_own = own && (*own || (log_exists(directory_, own_name_) && is_marked(directory_, own_name_)));
    if (is_own) {
      CODECFS_ASSIGN(FoundLog found, at(directory_.path, own_name_));
      if (!*own) CODECFS_TRY(check_copy(directory_, own_name_));
      found.committed = *std::move(own);
      return found;
    }
    if (!own && is_marked(directory_, own_name_)) return pass_on(own);
    CODECFS_ASSIGN(std::optional<FoundLog> found, elsewhere());
    if (found) return std::move(*found);
    if (!own) return pass_on(own);
    if (refusal_) return std::unexpected(*refusal_);
    FoundLog none;
    if (mark_) none.missing = missing();
    return none;
  }

 private:
  Result<FoundLog> at(const std::string& directory, const std::string& name) const {
    FoundLog found;
    CODECFS_ASSIGN(found.directory, open_directory(directory));
    found.name = name;
    return found;
  }

  /// Whether the mark, if there is one, names this log.
  [[nodiscard]] bool is_marked(const File& directory, const std::string& name) const {
    if (!mark_) return true;
    const std::optional<LogHeader> header = read_log_header(directory, name);
    return header && header->id == mark_->id;
  }

  /// Checks a log without commits that the mark names: either it never had any, or a checkpoint has brought them into
  /// the file for which the log was made. A copy of that file may have been made meanwhile, with a part of them.
  /// EUCLEAN.
  [[nodiscard]] Result<> check_copy(const File& directory, const std::string& name) const {
    const std::optional<LogHeader> header = mark_ ? read_log_header(directory, name) : std::nullopt;
    if (!header || header->version < 2) return {};
    CODECFS_ASSIGN(const SourceIdentity now, identify(source_));
    const SourceIdentity& then = header->source;
    if (now.device == then.device && now.inode == then.inode) return {};
    return check_is_unchanged(then, now, fmt::format("{}/{}", directory.path, name), source_);
  }

  Result<std::optional<FoundLog>> elsewhere() {
    if (mark_ && !mark_->name.empty()) {
      why_ = "does not exist";
      if (const auto there = open_directory(mark_->directory)) {
        CODECFS_ASSIGN(auto found, candidate(*there, mark_->name));
        if (found) return found;
      }
      CODECFS_ASSIGN(auto found, candidate(directory_, mark_->name));
      if (found) return found;
    }
    for (const std::string& name : logs_in(directory_, own_name_, !mark_ && access_ == LogAccess::read)) {
      CODECFS_ASSIGN(auto found, candidate(directory_, name));
      if (found) return found;
    }
    return std::nullopt;
  }

  Result<std::optional<FoundLog>> candidate(const File& directory, const std::string& name) {
    const std::optional<LogHeader> header = read_log_header(directory, name);
    if (!header || (mark_ && header->id != mark_->id)) return std::nullopt;
    if (is_in_use(directory, name)) {
      why_ = "is being written by another codecfs";
      is_in_use_ = true;
      return std::nullopt;
    }
    if (belongs_to_another(directory, name, *header, source_, mark_.has_value())) {
      why_ = fmt::format("belongs to the file '{}' beside it", source_name_for(name));
      return std::nullopt;
    }
    if (!mark_ && header->checkpoint == 0) {
      CODECFS_ASSIGN(const SourceIdentity now, identify(source_));
      if (now.size != header->source.size || now.head != header->source.head) return std::nullopt;
    }
    auto read = read_log(directory, name, source_, access_);
    if (!read) {
      if (mark_) refusal_ = read.error();
      return std::nullopt;
    }
    if (!*read && !mark_) return std::nullopt;
    if (const Result<> is_whole = *read ? Result<>() : check_copy(directory, name); !is_whole) {
      refusal_ = is_whole.error();
      return std::nullopt;
    }
    CODECFS_ASSIGN(FoundLog found, at(directory.path, name));
    found.committed = *std::move(read);
    return found;
  }

  [[nodiscard]] Error missing() const {
    const std::string log = mark_->name.empty() ? "which cannot be read" : mark_->directory + "/" + mark_->name;
    std::string rescued;
    if (const std::string path = rescued_beside(); !path.empty())
      rescued = fmt::format(" When the mount of a deleted file ended, its whole content was written to '{}'.", path);
    return {
        is_in_use_ ? EBUSY : EUCLEAN,
        fmt::format("{}: its attribute {} names a log of changes that are not in the file yet, {}{}{}, and no "
                    "other log here belongs to the file.{} If the file was moved without its log, move the log beside "
                    "it as '{}'; if this is a copy of a mounted file, unmount that and copy it again; to discard "
                    "the last writes: setfattr -x {} '{}'",
                    source_.path, kLogMark, log, why_.empty() ? "" : ", which ", why_, rescued, own_name_, kLogMark,
                    source_.path)};
  }

  /// The newest file that write_log_rescue.h has written beside the log that the mark names. Empty: there is none.
  [[nodiscard]] std::string rescued_beside() const {
    if (mark_->name.empty()) return {};
    const auto directory = open_directory(mark_->directory);
    std::string newest;
    for (unsigned number = 0; directory && number < kMaxRescues; ++number) {
      const std::string name = rescued_name(rescue_stem_for(mark_->name), number);
      if (!log_exists(*directory, name)) break;
      newest = directory->path + "/" + name;
    }
    return newest;
  }

  const File& directory_;
  const std::string own_name_;
  const File& source_;
  const LogAccess access_;
  const std::optional<Mark> mark_;
  std::optional<Error> refusal_;  // why the log that the mark names was not used
  std::string why_;               // why no candidate was used
  bool is_in_use_ = false;        // temporary: the writer may end soon
};

}  // namespace

bool has_log_mark(const File& source) { return ::fgetxattr(source.fd.get(), kLogMark, nullptr, 0) >= 0; }

std::string marked_log(int source) {
  const std::optional<Mark> mark = read_mark(source);
  return mark && !mark->name.empty() ? mark->directory + "/" + mark->name : std::string();
}

Result<> set_log_mark(FileIo& io, const File& source, uint64_t log_id, const File& log) {
  CODECFS_TRY(io.set_attribute(source, kLogMark, fmt::format("{:016x} {}", log_id, log.path)));
  const Result<> synced = io.sync(source);
  if (!synced) (void)remove_log_mark(io, source);
  return synced;
}

Result<> remove_log_mark(FileIo& io, const File& source) {
  if (!has_log_mark(source)) return {};
  CODECFS_TRY(io.remove_attribute(source, kLogMark));
  return io.sync(source);
}

Result<FoundLog> find_log(const File& directory, const std::string& source_name, const File& source, LogAccess access) {
  return Search(directory, source_name, source, access).run();
}

}  // namespace codecfs::hdf5
