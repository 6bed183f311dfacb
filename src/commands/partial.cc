#include "commands/partial.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <filesystem>
#include <fstream>
#include <tuple>
#include <vector>

#include "base/file_io.h"
#include "base/file_name.h"
#include "commands/copy_access.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr std::string_view kCopied = "copied\n";
const std::string kPartial = ".codecfs-partial";
// Bytes that names which are made from that of the partial result have more: of the log and of a compaction.
constexpr size_t kRoom = 60;

/// Writes the whole note.
Result<> write_note(const UniqueFd& note, const std::string& path, const std::string& text) {
  const ssize_t count = pwrite(note.get(), text.data(), text.size(), 0);
  if (count < 0) return fail_errno(errno, "{}", path);
  if (static_cast<size_t>(count) < text.size()) return fail_errno(ENOSPC, "{}", path);
  return {};
}

/// A text that differs after each boot.
std::string boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace

std::pair<std::string, std::string> split_path(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::filesystem::path whole(path);
  std::string parent = whole.parent_path().string();
  return {parent.empty() ? "." : parent, whole.filename().string()};
}

bool is_there(const std::string& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) == 0;
}

Result<Partial> Partial::begin(const std::string& destination, const Json& identity, bool resume) {
  Partial partial;
  std::tie(partial.directory_, partial.destination_) = split_path(destination);
  if (partial.destination_.empty() || partial.destination_ == "." || partial.destination_ == "..")
    return fail(EINVAL, "{}: not the name of a new dataset", destination);
  if (partial.destination_.size() > NAME_MAX) return fail_errno(ENAMETOOLONG, "{}", destination);
  const std::string longest = fitted_name("", partial.destination_, kPartial + std::string(kRoom, '-'));
  partial.name_ = longest.substr(0, longest.size() - kRoom);
  if (is_there(destination)) return fail(EEXIST, "{}: exists", destination);
  const std::string note = partial.path() + ".json";
  const bool is_left = is_there(partial.path()) || is_there(note);
  if (is_left && !resume)
    return fail(EEXIST, "{}: is left of an interrupted conversion; --resume goes on with it, or remove: {}",
                partial.path(), partial.leftovers());
  partial.note_ = UniqueFd(open(note.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!partial.note_) return fail_errno(errno, "{}", note);
  if (flock(partial.note_.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(EBUSY, "{}: another process is converting into it", partial.path());
  const std::string line = print_json(identity) + "\n";
  partial.text_ = line + boot_id() + "\n";
  if (is_left) {
    std::string before(partial.text_.size() + kCopied.size() + 1, '\0');
    const ssize_t count = pread(partial.note_.get(), before.data(), before.size(), 0);
    if (count < 0) return fail_errno(errno, "{}", note);
    before.resize(static_cast<size_t>(count));
    if (!before.starts_with(line))
      return fail(
          EINVAL,
          "{}: is of another conversion, or the source has changed since: start anew after you have removed: {}",
          partial.path(), partial.leftovers());
    partial.is_copied_ = before.ends_with("\n" + std::string(kCopied));
    partial.is_of_this_boot_ = before.starts_with(partial.text_);
  } else if (const Result<> written = write_note(partial.note_, note, partial.text_); !written) {
    unlink(note.c_str());
    return std::unexpected(written.error());
  }
  return partial;
}

Result<> Partial::note_copied() {
  CODECFS_TRY(write_note(note_, path() + ".json", text_ + std::string(kCopied)));
  if (fsync(note_.get()) != 0) return fail_errno(errno, "{}.json", path());
  is_copied_ = true;
  return {};
}

/// What there is of it.
std::vector<std::string> Partial::files() const {
  std::vector<std::string> all;
  for (const std::string& own : {path(), path() + ".json"})
    if (is_there(own)) all.push_back(own);
  // The log of a killed process, and what a killed compaction leaves.
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(directory_, ignored), end; !ignored && at != end; at.increment(ignored))
    if (at->path().filename().string().starts_with("." + name_ + ".codecfs-"))
      all.push_back(directory_ + "/" + at->path().filename().string());
  return all;
}

std::string Partial::leftovers() const {
  std::string text;
  for (const std::string& path : files()) text += fmt::format("{}'{}'", text.empty() ? "" : " ", path);
  return text;
}

void Partial::discard() const {
  std::error_code ignored;
  for (const std::string& left : files()) std::filesystem::remove_all(left, ignored);
}

Result<> Partial::finish(const std::string& source) const {
  CODECFS_TRY(open_to_readers(path(), source));
  CODECFS_ASSIGN(const File directory, open_directory(directory_));
  FileIo& io = real_file_io();
  CODECFS_TRY(io.move(directory, name_, directory, destination_));
  CODECFS_TRY(io.unlink(directory, name_ + ".json"));
  return io.sync(directory);
}

}  // namespace codecfs::commands
