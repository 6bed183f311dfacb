#include "fs/context/scratch_files.h"

#include <algorithm>
#include <cstring>

#include "fs/nodes/clock.h"

namespace codecfs::fs {

Result<ScratchFiles::File*> ScratchFiles::at(Ino ino) {
  const auto found = files_.find(ino);
  if (found == files_.end()) return fail(ESTALE, "inode {}: this temporary file no longer exists", ino);
  return &found->second;
}

Result<Ino> ScratchFiles::create(Ino directory, std::string_view name, mode_t permissions) {
  const LockGuard lock(mutex_);
  if (names_.contains({directory, std::string(name)})) return fail(EEXIST, "{}: exists", name);
  if (names_.size() >= kMaxFiles) return fail(ENOSPC, "{}: there are {} temporary files already", name, kMaxFiles);
  const Ino ino = kScratchSlot << kLocalBits | next_++;
  std::map<Key, Ino> named{{Key{directory, name}, ino}};
  files_.emplace(ino, File{.directory = directory,
                           .name = std::string(name),
                           .bytes = {},
                           .permissions = permissions & 0777,
                           .modified = now(),
                           .lookups = 0,
                           .chunk = {}});
  names_.merge(named);  // takes no memory
  return ino;
}

std::optional<Ino> ScratchFiles::find(Ino directory, std::string_view name) {
  const LockGuard lock(mutex_);
  const auto found = names_.find({directory, std::string(name)});
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::pair<std::string, Ino>> ScratchFiles::list(Ino directory) {
  const LockGuard lock(mutex_);
  std::vector<std::pair<std::string, Ino>> names;
  for (auto at = names_.lower_bound({directory, ""}); at != names_.end() && at->first.first == directory; ++at)
    names.emplace_back(at->first.second, at->second);
  return names;
}

std::vector<Ino> ScratchFiles::directories_within(Ino first, uint64_t count) {
  const LockGuard lock(mutex_);
  std::vector<Ino> directories;
  for (auto at = names_.lower_bound({first, ""}); at != names_.end() && at->first.first - first < count; ++at)
    if (directories.empty() || directories.back() != at->first.first) directories.push_back(at->first.first);
  return directories;
}

Result<struct stat> ScratchFiles::status(Ino ino) {
  const LockGuard lock(mutex_);
  CODECFS_ASSIGN(const File* file, at(ino));
  struct stat status{};
  status.st_ino = ino;
  status.st_mode = S_IFREG | file->permissions;
  status.st_nlink = file->name.empty() ? 0 : 1;
  status.st_size = static_cast<off_t>(file->bytes.size());
  status.st_blocks = static_cast<blkcnt_t>((file->bytes.size() + 511) / 512);
  status.st_mtim = status.st_ctim = status.st_atim = file->modified;
  return status;
}

Result<> ScratchFiles::set_permissions(Ino ino, mode_t permissions) {
  const LockGuard lock(mutex_);
  CODECFS_ASSIGN(File * file, at(ino));
  file->permissions = permissions & 0777;
  return {};
}

Result<std::string> ScratchFiles::read(Ino ino, uint64_t offset, size_t size) {
  const LockGuard lock(mutex_);
  CODECFS_ASSIGN(const File* file, at(ino));
  return offset < file->bytes.size() ? file->bytes.substr(offset, size) : std::string();
}

Result<bool> ScratchFiles::write(Ino ino, uint64_t offset, Bytes bytes) {
  UniqueLock lock(mutex_);
  unsealed_.wait(lock, [&]() CODECFS_REQUIRES(mutex_) {
    const auto found = files_.find(ino);
    return found == files_.end() || !found->second.sealed;
  });
  CODECFS_ASSIGN(File* const file, at(ino));
  if (file->chunk) return false;
  const uint64_t end = offset + bytes.size();
  if (end > file->bytes.size()) CODECFS_TRY(set_size(*file, end));
  std::memcpy(file->bytes.data() + offset, bytes.data(), bytes.size());
  file->modified = now();
  return true;
}

Result<> ScratchFiles::resize(Ino ino, uint64_t size) {
  const LockGuard lock(mutex_);
  CODECFS_ASSIGN(File * file, at(ino));
  CODECFS_TRY(set_size(*file, size));
  file->modified = now();
  return {};
}

Result<> ScratchFiles::set_size(File& file, uint64_t size) {
  const uint64_t before = file.bytes.size();
  if (size > before && (size > kMaxBytes || bytes_ + (size - before) > kMaxBytes))
    return fail(ENOSPC, "{}: temporary files may have {} bytes together", file.name, kMaxBytes);
  file.bytes.resize(size);
  bytes_ += size - before;
  return {};
}

Result<> ScratchFiles::unlink(Ino directory, std::string_view name) {
  const LockGuard lock(mutex_);
  const auto found = names_.find({directory, std::string(name)});
  if (found == names_.end()) return fail(ENOENT, "{}: no such file", name);
  const Ino ino = found->second;
  names_.erase(found);
  files_[ino].name.clear();
  drop_if_unused(ino);
  return {};
}

Result<> ScratchFiles::rename(Ino directory, std::string_view name, Ino to_directory, std::string_view to_name) {
  const LockGuard lock(mutex_);
  const auto found = names_.find({directory, std::string(name)});
  if (found == names_.end()) return fail(ENOENT, "{}: no such file", name);
  const Ino ino = found->second;
  File& file = files_.find(ino)->second;
  if (file.sealed) return fail(EBUSY, "{}: is being renamed", name);
  Key key{to_directory, to_name};
  std::string own_name(to_name);
  // From here on no memory is needed: the file has one name or the other.
  auto entry = names_.extract(found);
  if (const auto there = names_.find(key); there != names_.end()) {
    const Ino replaced = there->second;
    names_.erase(there);
    files_[replaced].name.clear();
    drop_if_unused(replaced);
  }
  entry.key() = std::move(key);
  names_.insert(std::move(entry));
  file.directory = to_directory;
  file.name = std::move(own_name);
  return {};
}

Result<ScratchFiles::Sealed> ScratchFiles::seal(Ino directory, std::string_view name) {
  const LockGuard lock(mutex_);
  const auto found = names_.find({directory, std::string(name)});
  if (found == names_.end()) return fail(ENOENT, "{}: no such file", name);
  File& file = files_[found->second];
  if (file.sealed) return fail(EBUSY, "{}: is being renamed", name);
  Sealed sealed(*this, found->second, file.bytes);
  file.sealed = true;
  return sealed;
}

void ScratchFiles::unseal(Ino ino) {
  const LockGuard lock(mutex_);
  // An unlinked file may have gone meanwhile.
  if (const auto found = files_.find(ino); found != files_.end()) found->second.sealed = false;
  unsealed_.notify_all();
}

void ScratchFiles::promote(Ino ino, Ino chunk) {
  const LockGuard lock(mutex_);
  const auto found = files_.find(ino);
  if (found == files_.end() || found->second.name.empty()) return;  // unlinked meanwhile
  File& file = found->second;
  const auto name = names_.find({file.directory, file.name});
  former_.emplace(chunk, ino);
  // From here on no memory is needed.
  names_.erase(name);
  file.name.clear();
  file.chunk = chunk;
  bytes_ -= file.bytes.size();
  file.bytes = {};
  drop_if_unused(ino);
}

std::optional<Ino> ScratchFiles::promoted_to(Ino ino) {
  const LockGuard lock(mutex_);
  const auto found = files_.find(ino);
  return found == files_.end() ? std::nullopt : found->second.chunk;
}

std::vector<Ino> ScratchFiles::former_inos(Ino chunk) {
  const LockGuard lock(mutex_);
  std::vector<Ino> inos;
  const auto [first, last] = former_.equal_range(chunk);
  for (auto at = first; at != last; ++at) inos.push_back(at->second);
  return inos;
}

void ScratchFiles::looked_up(Ino ino) {
  const LockGuard lock(mutex_);
  if (const auto found = files_.find(ino); found != files_.end()) ++found->second.lookups;
}

void ScratchFiles::forgotten(Ino ino, uint64_t count) {
  const LockGuard lock(mutex_);
  const auto found = files_.find(ino);
  if (found == files_.end()) return;
  found->second.lookups -= std::min(count, found->second.lookups);
  drop_if_unused(ino);
}

uint64_t ScratchFiles::bytes() {
  const LockGuard lock(mutex_);
  return bytes_;
}

std::vector<std::pair<Ino, std::string>> ScratchFiles::names() {
  const LockGuard lock(mutex_);
  std::vector<std::pair<Ino, std::string>> names;
  for (const auto& [key, ino] : names_) names.push_back(key);
  return names;
}

void ScratchFiles::drop_if_unused(Ino ino) {
  const auto found = files_.find(ino);
  if (found == files_.end() || found->second.lookups > 0 || !found->second.name.empty()) return;
  bytes_ -= found->second.bytes.size();
  if (found->second.chunk) {
    const auto [first, last] = former_.equal_range(*found->second.chunk);
    former_.erase(std::find_if(first, last, [&](const auto& item) { return item.second == ino; }));
  }
  files_.erase(found);
}

}  // namespace codecfs::fs
