#include "backends/folder/datasets.h"

#include <algorithm>

#include "backends/api/newer_format.h"
#include "base/log.h"

namespace codecfs::folder {
namespace {

using Clock = std::chrono::steady_clock;

/// Compares the status of files. A directory's status does not show changes inside it.
bool has_same_content(const struct stat& one, const struct stat& other) {
  return S_ISDIR(one.st_mode) || (one.st_size == other.st_size && one.st_mtim.tv_sec == other.st_mtim.tv_sec &&
                                  one.st_mtim.tv_nsec == other.st_mtim.tv_nsec);
}

Error in_dataset(const std::string& key, Error error) {
  error.reason = fmt::format("{}: {}", key, error.reason);
  return error;
}

}  // namespace

DatasetPtr Datasets::at(const std::string& key, const Found& found) {
  std::optional<Closing> outdated;  // closed after the lock is released
  DatasetPtr dataset;
  {
    const LockGuard lock(mutex_);
    DatasetPtr& known = datasets_[{found.status.st_dev, found.status.st_ino}];
    const bool is_other =
        known != nullptr && (known->kind != found.kind || !has_same_content(known->status_, found.status));
    // If it was written, the changes may be our own; if it is in use, its users keep the old content.
    if (is_other && !known->written_) {
      if (known->source_ != nullptr) outdated = take_to_close(known);
      known->retired_ = known->source_ == nullptr;
    }
    if (known == nullptr || known->retired_) known = std::make_shared<Dataset>(key, found);
    if (!is_other) known->status_ = found.status;
    dataset = known;
  }
  if (outdated) close(std::move(*outdated));
  const std::string shown = key_of(*dataset);
  if (shown == key) return dataset;
  // The file was renamed, or this is another of its names.
  const auto there = files_.stat(shown);
  if (there && *there && is_same_file(**there, found.status)) return dataset;
  close_replaced(key, *dataset);
  std::shared_ptr<Source> source;
  {
    const LockGuard lock(mutex_);
    dataset->key_ = key;
    if (dataset->written_) source = dataset->source_;
  }
  if (source == nullptr) return dataset;
  if (const Result<> followed = source->relocate_log(); !followed)
    log::warning("{}", in_dataset(key, followed.error()).reason);
  return dataset;
}

/// If the dataset that was written at this key is no longer the file there, moves its log away or closes it, so that
/// the new file's log does not collide with it.
void Datasets::close_replaced(const std::string& key, const Dataset& replacement) {
  for (auto& [dataset, its_key, source] : all_open()) {
    {
      const LockGuard lock(mutex_);
      if (its_key != key || dataset.get() == &replacement || !dataset->written_) continue;
    }
    if (const Result<> followed = source->relocate_log(); followed || followed.error().code != ESTALE) continue;
    source.reset();
    close_deleted(dataset);
  }
}

/// Closes a dataset whose file no longer exists. If it is in use, it stays open until the next call.
void Datasets::close_deleted(const DatasetPtr& dataset) {
  std::optional<Closing> closing;
  {
    const LockGuard lock(mutex_);
    if (dataset->source_ == nullptr) return;
    closing = take_to_close(dataset);
    if (closing) dataset->retired_ = true;
  }
  if (closing) close(std::move(*closing));
}

std::string Datasets::key_of(const Dataset& dataset) const {
  const LockGuard lock(mutex_);
  return dataset.key_;
}

struct stat Datasets::status_of(const Dataset& dataset) const {
  const LockGuard lock(mutex_);
  return dataset.status_;
}

Result<std::shared_ptr<Source>> Datasets::open(const std::string& key, const Found& expected) const {
  auto opened = files_.open_dataset(key, expected, may_write_);
  if (opened || opened.error().code != EINVAL) return opened;
  opened.error().code = EIO;
  return opened;
}

Result<Datasets::Use> Datasets::use(const DatasetPtr& dataset, For purpose) {
  {
    const LockGuard lock(mutex_);
    if (dataset->source_ != nullptr) return take(*dataset, purpose);
  }
  std::vector<Closing> surplus;
  Use use;
  {
    const LockGuard opening(dataset->opening_);
    std::string key;
    Found expected;
    {
      const LockGuard lock(mutex_);
      if (dataset->source_ != nullptr) return take(*dataset, purpose);
      if (dataset->retired_) return fail(ESTALE, "{}: was changed by another program", dataset->key_);
      if (dataset->refusal_) return std::unexpected(*dataset->refusal_);
      key = dataset->key_;
      expected = {dataset->kind, dataset->status_, {}};
    }
    close_replaced(key, *dataset);
    auto opened = open(key, expected);
    const LockGuard lock(mutex_);
    if (!opened) {
      if (opened.error().code == ENOENT && purpose == For::writing)
        return fail(ESTALE, "{}: was deleted by another program", key);
      // Do not try to open a damaged file again until it changes. A directory's status does not show its repair, and a
      // server that fails may be there again later.
      if (files_.remembers_failures() && is_unreadable(opened.error().code) && S_ISREG(expected.status.st_mode))
        dataset->refusal_ = opened.error();
      return pass_on(opened);
    }
    dataset->source_ = std::move(*opened);
    ++dataset->generation_;
    open_.push_front(dataset);
    dataset->place_ = open_.begin();
    use = take(*dataset, purpose);
    surplus = take_surplus();
  }
  for (Closing& closing : surplus) close(std::move(closing));
  return use;
}

DatasetPtr Datasets::adopt(const std::string& key, const Found& found, std::shared_ptr<Source> source) {
  auto dataset = std::make_shared<Dataset>(key, found);
  const LockGuard lock(mutex_);
  datasets_[{found.status.st_dev, found.status.st_ino}] = dataset;
  dataset->source_ = std::move(source);
  ++dataset->generation_;
  open_.push_front(dataset);
  dataset->place_ = open_.begin();
  return dataset;
}

DatasetPtr Datasets::replace(const DatasetPtr& former, const std::string& key, const Found& found) {
  const LockGuard lock(mutex_);
  if (former->source_ != nullptr) return nullptr;
  former->retired_ = true;
  auto dataset = std::make_shared<Dataset>(key, found);
  datasets_[{found.status.st_dev, found.status.st_ino}] = dataset;
  return dataset;
}

bool Datasets::is_open(const Dataset& dataset) const {
  const LockGuard lock(mutex_);
  return dataset.source_ != nullptr;
}

std::optional<Datasets::Use> Datasets::use_if_open(const DatasetPtr& dataset) {
  const LockGuard lock(mutex_);
  if (dataset->source_ == nullptr) return std::nullopt;
  return take(*dataset, For::reading);
}

Datasets::Use Datasets::take(Dataset& dataset, For purpose) {
  dataset.written_ |= purpose == For::writing;
  dataset.used_ = Clock::now();
  open_.splice(open_.begin(), open_, dataset.place_);
  return {dataset.source_, dataset.generation_};
}

/// None if it is in use.
std::optional<Datasets::Closing> Datasets::take_to_close(const DatasetPtr& dataset) {
  if (dataset->source_.use_count() != 1) return std::nullopt;  // only code that holds mutex_ makes copies
  std::unique_lock opening(dataset->opening_, std::try_to_lock);
  if (!opening) return std::nullopt;
  open_.erase(dataset->place_);
  return Closing{dataset, std::exchange(dataset->source_, nullptr), std::move(opening)};
}

/// The least recently used datasets beyond kMaxOpen.
std::vector<Datasets::Closing> Datasets::take_surplus() {
  std::vector<Closing> surplus;
  for (auto at = open_.end(); open_.size() > kMaxOpen && at != open_.begin();) {
    const DatasetPtr dataset = *--at;
    const auto next = std::next(at);
    if (auto closing = take_to_close(dataset)) {
      surplus.push_back(std::move(*closing));
      at = next;
    }
  }
  return surplus;
}

std::vector<Datasets::Closing> Datasets::take_unused(std::chrono::seconds unused_for) {
  std::vector<Closing> unused;
  for (auto at = open_.begin(); at != open_.end();) {
    const DatasetPtr dataset = *at++;
    const bool is_locked = !dataset->written_ && files_.reads_at_once() == 0;
    const auto limit = is_locked ? std::min(unused_for, kReadingRest) : unused_for;
    if (Clock::now() - dataset->used_ < limit) continue;
    if (auto closing = take_to_close(dataset)) unused.push_back(std::move(*closing));
  }
  return unused;
}

void Datasets::close_unused(std::chrono::seconds unused_for) {
  std::vector<Closing> unused;
  {
    const LockGuard lock(mutex_);
    unused = take_unused(unused_for);
  }
  for (Closing& closing : unused) close(std::move(closing));
  for (const Open& open : all_open()) open.source->release_idle(unused_for);
}

void Datasets::close(Closing closing) {
  const Result<> finished = closing.source->finish();
  std::string key = key_of(*closing.dataset);
  bool was_written = false;
  {
    const LockGuard lock(mutex_);
    was_written = closing.dataset->written_;
  }
  // While the source is locked: what other programs change later must not be taken for our own writes.
  const auto status = was_written ? files_.stat(key) : Result<std::optional<struct stat>>();
  closing.source.reset();
  const LockGuard lock(mutex_);
  // Our own writes changed the file.
  if (std::exchange(closing.dataset->written_, false) && status && *status &&
      (is_same_file(**status, closing.dataset->status_) || (finished && files_.are_replaced_by_commits())))
    closing.dataset->status_ = **status;
  if (finished) return;
  const Error error = in_dataset(key, finished.error());
  log::error("{}", error.reason);
  if (!lost_) lost_ = error;
}

std::vector<Datasets::Open> Datasets::all_open() {
  const LockGuard lock(mutex_);
  std::vector<Open> all;
  for (const DatasetPtr& dataset : open_) all.push_back({dataset, dataset->key_, dataset->source_});
  return all;
}

std::optional<Error> Datasets::take_lost() {
  const LockGuard lock(mutex_);
  return std::exchange(lost_, std::nullopt);
}

uint64_t Datasets::reclaimable_bytes() {
  uint64_t bytes = 0;
  for (const Open& open : all_open()) bytes += open.source->reclaimable_bytes();
  return bytes;
}

bool Datasets::has_deleted() {
  return std::ranges::any_of(all_open(), [](const Open& open) { return open.source->is_deleted(); });
}

Result<> Datasets::commit_all() {
  Result<> first;
  for (auto& [dataset, key, source] : all_open()) {
    const Result<> committed = source->commit();
    if (committed) continue;
    if (first) first = std::unexpected(in_dataset(key, committed.error()));
    // Drop datasets that are gone, so that later commits do not report them again.
    source.reset();
    if (committed.error().code == ESTALE) close_deleted(dataset);
  }
  return first;
}

Result<> Datasets::commit() {
  const Result<> committed = commit_all();
  const std::optional<Error> lost = take_lost();
  if (lost) return std::unexpected(*lost);
  return committed;
}

Result<> Datasets::commit_at_interval() {
  CODECFS_TRY(commit_all());
  const LockGuard lock(mutex_);
  if (lost_) return std::unexpected(*lost_);
  return {};
}

Result<> Datasets::finish() {
  std::optional<Error> first = take_lost();
  for (const Open& open : all_open())
    if (const Result<> finished = open.source->finish(); !finished && !first)
      first = in_dataset(open.key, finished.error());
  const LockGuard lock(mutex_);
  for (const DatasetPtr& dataset : open_) {
    dataset->source_.reset();
    dataset->refusal_ = Error{ESTALE, "the mount has ended"};
  }
  open_.clear();
  if (first) return std::unexpected(std::move(*first));
  return {};
}

}  // namespace codecfs::folder
