// The mounted file in libhdf5, the right to write, and commits.

#include "backends/hdf5/source/source_file.h"

#include <algorithm>
#include <utility>

#include "backends/api/newer_format.h"
#include "backends/hdf5/library/hdf5_version.h"
#include "backends/hdf5/library/library_lock.h"
#include "backends/hdf5/overview/newer_forms.h"
#include "backends/hdf5/wal/file_driver.h"
#include "backends/hdf5/wal/survivor.h"
#include "base/log.h"

namespace codecfs::hdf5 {
namespace {

// Upper bound for the metadata that a change of one chunk writes: index nodes and free-space records.
constexpr uint64_t kRoomForMetadata = uint64_t{1} << 20;  // bytes
// The part of it that grows the file.
constexpr uint64_t kGrowthByMetadata = uint64_t{64} << 10;  // bytes
// The log is checkpointed into the source after a commit if it is longer than the file, clamped to this range: a
// checkpoint costs more than a commit, but the log of a large file must not fill the disk.
constexpr uint64_t kShortLog = uint64_t{16} << 20;  // bytes
constexpr uint64_t kLongLog = uint64_t{128} << 20;  // bytes

constexpr size_t kMetadataCache = size_t{64} << 20;  // maximum; allocated as needed

// The index of a variable with a million chunks is some tens of MB. libhdf5's default cache holds little of it, so that
// each random lookup reads and verifies a node or two again.
void keep_index_in_memory(hid_t access) {
  H5AC_cache_config_t config{};
  config.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  if (H5Pget_mdc_config(access, &config) < 0) return;
  config.set_initial_size = true;
  config.initial_size = kMetadataCache / 4;
  config.max_size = kMetadataCache;
  H5Pset_mdc_config(access, &config);
}

// Each seal makes libhdf5 look at everything in its cache. Where that is objects, of some hundred bytes each, it keeps
// only some thousand of them, so that this takes no longer the more there are.
void keep_few_objects_in_memory(hid_t file) {
  constexpr int kMaxObjects = 4096;
  constexpr size_t kSmall = 1024;  // bytes; nodes of indexes are larger
  constexpr size_t kLeast = size_t{1} << 20;
  size_t bytes = 0;
  int count = 0;
  H5AC_cache_config_t config{};
  config.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  if (H5Fget_mdc_size(file, nullptr, nullptr, &bytes, &count) < 0 || count < 1) return;
  const size_t each = bytes / static_cast<size_t>(count);
  if (each < kSmall && count < kMaxObjects / 2) return;
  const size_t wanted = each >= kSmall ? kMetadataCache : std::max(kMaxObjects * each, kLeast);
  if (H5Fget_mdc_config(file, &config) < 0) return;
  const bool is_near = config.max_size / 2 <= wanted && wanted <= config.max_size;  // each change of it has a cost
  if (is_near && (count <= 2 * kMaxObjects || wanted == kMetadataCache)) return;
  config.max_size = wanted;
  config.set_initial_size = true;
  config.initial_size = wanted == kMetadataCache ? wanted / 4 : wanted;
  config.min_size = std::min(config.min_size, config.initial_size);
  H5Fset_mdc_config(file, &config);
}

// Free space that will be unknown after the file is reopened.
uint64_t forgettable_space(hid_t file) {
  const Handle creation(H5Fget_create_plist(file));
  H5F_fspace_strategy_t strategy{};
  hbool_t persists = 0;
  hsize_t threshold = 0;
  if (H5Pget_file_space_strategy(creation.get(), &strategy, &persists, &threshold) >= 0 && persists) return 0;
  const hssize_t bytes = H5Fget_freespace(file);
  return bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}

// Closes all identifiers, since open ones would keep the file open in libhdf5.
bool close_objects_of(hid_t file) {
  constexpr unsigned kObjects = H5F_OBJ_ALL & ~static_cast<unsigned>(H5F_OBJ_FILE);
  const ssize_t count = H5Fget_obj_count(file, kObjects);
  if (count <= 0) return count == 0;
  std::vector<hid_t> objects(static_cast<size_t>(count));
  const ssize_t found = H5Fget_obj_ids(file, kObjects, objects.size(), objects.data());
  objects.resize(static_cast<size_t>(std::clamp<ssize_t>(found, 0, count)));
  for (const hid_t object : objects)
    while (H5Iget_ref(object) > 0 && H5Idec_ref(object) >= 0) continue;
  return H5Fget_obj_count(file, kObjects) == 0;
}

// The file of this thread's ChangeTurn.
thread_local SourceFile* changed_by_thread = nullptr;

}  // namespace

ChangeTurn::ChangeTurn(SourceFile& file) : outer_(std::exchange(changed_by_thread, &file)) {
  if (outer_ != &file) lock_ = std::shared_lock(file.change_turn);
}

ChangeTurn::~ChangeTurn() { changed_by_thread = outer_; }

Result<Handle> SourceFile::open_in_library(unsigned flags) const {
  const hid_t driver = file_driver(bytes->family().has_value());
  const Handle access(H5Pcreate(H5P_FILE_ACCESS));
  if (driver < 0 || H5Pset_driver(access.get(), driver, nullptr) < 0) return fail(EIO, "{}", latest_failure().reason);
  keep_index_in_memory(access.get());
  if (flags == H5F_ACC_RDONLY)
    allow_truncated(access.get());
  else if (latest && H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST) < 0)
    return fail(EIO, "{}", latest_failure().reason);
  const OpenScope scope(*bytes);
  Handle opened(H5Fopen(path.c_str(), flags, access.get()));
  // Query it before `access` is closed: that call clears libhdf5's error.
  if (!opened) return fail(EIO, "{}", latest_failure().reason);
  return opened;
}

Result<> SourceFile::open_as_allowed() {
  if (!not_writable) {
    auto opened = open_in_library(H5F_ACC_RDWR);
    if (opened) {
      file = std::move(*opened);
      return {};
    }
    not_writable = Error{EROFS, fmt::format("{}: libhdf5 opens it for reading only: {}", path, opened.error().reason)};
  }
  auto opened = open_in_library(H5F_ACC_RDONLY);
  if (!opened) {
    const auto newer =
        find_newer_superblock([this](uint64_t offset, MutableBytes to) { return bytes->read(offset, to); });
    if (newer) return fail(kNewerFormat, "{}: {}", path, *newer);
    return fail(EIO, "{} cannot be opened as HDF5: {}", path, opened.error().reason);
  }
  file = std::move(*opened);
  return {};
}

Result<> SourceFile::flush_in_library() {
  bytes->hold();
  if (H5Fflush(file.get(), H5F_SCOPE_LOCAL) < 0) return fail_library(EIO, "{}: writing its metadata", path);
  return bytes->release();
}

Result<> SourceFile::close_and_hold() {
  bytes->hold();
  if (!file) return {};
  const uint64_t free_space = forgettable_space(file.get());
  ++epoch;
  listing.reset();
  listing_owner = nullptr;
  written_masks.clear();  // reopening also clears libhdf5's cached masks
  // An object that stays open would keep its old cached state.
  if (!close_objects_of(file.get()) || !file.close()) return fail_library(EIO, "{}: libhdf5 cannot close it", path);
  untracked_space += free_space;
  return {};
}

Result<> SourceFile::close_in_library() {
  CODECFS_TRY(close_and_hold());
  return bytes->release();
}

Result<> SourceFile::reopen_in_library() {
  auto opened = open_in_library(H5F_ACC_RDWR);
  ++epoch;
  if (!opened) return change_failed(fail(EIO, "{} cannot be opened again: {}", path, opened.error().reason));
  file = std::move(*opened);
  return {};
}

void SourceFile::outdate(uint64_t address) {
  outdated[address] = ++epoch;
  ++generation_of(address);
  written_masks.erase(address);
  listing.reset();
  listing_owner = nullptr;
}

Result<> SourceFile::begin_writing() {
  if (not_writable) return std::unexpected(*not_writable);
  if (failure)
    return fail(failure->code, "{}: writing has stopped after a failure ({}); unmount and mount again", path,
                failure->reason);
  if (!bytes->writing()) {
    check_left_space();  // before the file is locked
    // created first: begin_writing() recovers an existing log
    auto begun = std::make_unique<WrittenSource>(bytes->fd());
    CODECFS_TRY(bytes->begin_writing());
    begun->has_log(mark_log(bytes->fd()));
    written = std::move(begun);
    if (bytes->left_space().datasets.empty()) left = {};
  }
  if (left_is_released) return {};
  left_is_released = true;
  const Result<> released = left.release(file.get());
  if (released) return {};
  left = {};
  return change_failed(std::unexpected(released.error()));
}

void SourceFile::check_left_space() {
  if (std::exchange(left_is_checked, true)) return;
  left.check([this](uint64_t address) { return recorder->object(address).has_value(); });
}

Result<> SourceFile::allow_change(uint64_t size, uint64_t growth) {
  CODECFS_TRY(begin_writing());
  const auto reserve = [&] { return bytes->reserve(size + kRoomForMetadata, growth + kGrowthByMetadata); };
  Result<> room = reserve();
  if (!room && !changed && bytes->log_bytes() != 0) {
    // A checkpoint frees the space of the log.
    if (checkpoint()) room = reserve();
  }
  CODECFS_TRY(room);
  changed = true;
  ++changes;
  return {};
}

Result<> SourceFile::allow_risky_change(uint64_t size, uint64_t growth) {
  if (is_bulk) return allow_change(size, growth);
  CODECFS_TRY(seal());
  if (has_long_log()) CODECFS_TRY(commit_locked());
  return allow_change(size, growth);
}

std::unexpected<Error> SourceFile::change_failed(std::unexpected<Error> error) {
  return abort_changes(std::move(error), changes > 1);
}

// `loses_others`: changes that were reported as successful are rolled back too.
std::unexpected<Error> SourceFile::abort_changes(std::unexpected<Error> error, bool loses_others) {
  bytes->hold();  // so that closing the file cannot fail for lack of space
  failure = error.error();
  if (rolling_back) return error;
  rolling_back = true;
  if (loses_others) ++shared->losses;
  const Result<> rolled_back = roll_back();
  rolling_back = false;
  if (!rolled_back) {
    log::error("{}: writing has stopped; all writes since the last commit are lost: {}", path, failure->reason);
    return error;
  }
  failure.reset();
  if (loses_others && (!is_isolated || is_bulk)) {  // else the daemon makes them again
    loss = fail(EIO, "{}: all writes since the last commit are lost because a change failed: {}", path,
                error.error().reason)
               .error();
    loss_epoch = epoch;
    log::error("{}", loss->reason);
  }
  reopened();
  return error;
}

Result<> SourceFile::report_loss() {
  if (!loss) return {};
  std::unexpected<Error> told(*std::move(loss));
  loss.reset();
  return told;
}

Result<> SourceFile::seal() {
  if (!changed) return {};
  if (failure) return std::unexpected(*failure);
  bytes->hold();  // libhdf5 crashes if the disk is full here
  if (H5Fflush(file.get(), H5F_SCOPE_LOCAL) < 0)
    return abort_changes(fail_library(EIO, "{}: writing its metadata", path), true);
  CODECFS_TRY(bytes->release());
  CODECFS_TRY(bytes->seal());
  keep_few_objects_in_memory(file.get());
  changed = false;
  changes = 0;
  if (left_is_released) left = {};
  return {};
}

Result<> SourceFile::seal_change() { return is_isolated ? seal() : Result<>(); }

Result<> SourceFile::commit() {
  {
    const LibraryLock lock;
    CODECFS_TRY(seal());
  }
  CODECFS_ASSIGN(const bool was_needed, bytes->sync_sealed());
  if (!was_needed) return {};
  {
    const ChangeTurn turn(*this);  // the log may be in a checkpoint
    const LibraryLock lock;
    if (!has_long_log()) return {};
  }
  const std::unique_lock alone(change_turn);
  std::unique_lock<Mutex> stopped;
  {
    const LibraryLock lock;
    if (!has_long_log()) return {};
    CODECFS_TRY(seal());  // other threads may have written meanwhile
    check_left_space();
    stopped = bytes->stop_writes();
  }
  return forgive_lack_of_space(bytes->checkpoint(std::move(stopped)));
}

Result<> SourceFile::commit_locked() {
  CODECFS_TRY(seal());
  const Result<bool> synced = bytes->sync_sealed();
  if (!synced) {
    changed = true;
    return std::unexpected(synced.error());
  }
  return *synced && has_long_log() ? forgive_lack_of_space(checkpoint()) : Result<>();
}

bool SourceFile::has_long_log() const {
  const uint64_t long_log = std::clamp(bytes->size(), kShortLog, kLongLog);
  return bytes->log_bytes() > long_log || bytes->room_is_short();
}

Result<> SourceFile::forgive_lack_of_space(Result<> checkpointed) const {
  const int code = checkpointed ? 0 : checkpointed.error().code;
  if (code != ENOSPC && code != EDQUOT && code != EFBIG) return checkpointed;
  log::warning("{}", checkpointed.error().reason);  // the next change will report the error
  return {};
}

Result<> SourceFile::checkpoint() {
  check_left_space();
  return bytes->checkpoint();
}

Result<> SourceFile::roll_back() {
  const uint64_t forgotten = untracked_space;
  Result<> done = close_and_hold();  // discards what closing writes, too
  untracked_space = forgotten;
  for (std::atomic<uint64_t>& generation : shared->generations) ++generation;
  if (done) done = bytes->rollback();
  CODECFS_TRY(reopen_in_library());
  if (!done) return change_failed(std::unexpected(done.error()));
  changed = false;
  changes = 0;
  left_is_released = left.empty();
  return {};
}

Result<LeftSpace> SourceFile::leave_space() {
  KeptSpace kept = left_is_released ? KeptSpace() : std::move(left);
  if (!bytes->is_marked() || !bytes->reserve(kRoomForMetadata, kGrowthByMetadata)) return kept.kept();
  bytes->hold();
  CODECFS_TRY(kept.take(file.get(), KeptSpace::kBetweenMounts));
  return kept.kept();
}

uint64_t SourceFile::free_space() const {
  const hssize_t known = H5Fget_freespace(file.get());
  return untracked_space + (left_is_released ? 0 : left.kept().bytes) + (known > 0 ? static_cast<uint64_t>(known) : 0);
}

}  // namespace codecfs::hdf5
