#include "fs/context/directory_overlay.h"

#include <utility>

namespace codecfs::fs {

bool is_condemned(const Node& node, const DirectoryState& state) {
  return node.kind == NodeKind::variable &&
         (state.hidden.contains(FileKind::zarray) || state.hidden.contains(FileKind::zarr_json));
}

DirectoryState DirectoryOverlay::state_of(const Node& directory) const {
  const LockGuard lock(mutex_);
  const auto found = directories_.find(directory.key());
  if (found == directories_.end()) return {};
  DirectoryState state = found->second.state;
  end_if_expired(state);
  if (state.fresh && is_shown_in(state, directory.view)) show_all(state);
  return state;
}

void DirectoryOverlay::show_all(DirectoryState& state) {
  state.fresh = false;
  state.empty = false;
  state.hidden.clear();
}

void DirectoryOverlay::end_if_expired(DirectoryState& state) {
  if (!state.fresh || state.empty || std::chrono::steady_clock::now() - state.latest <= kFresh) return;
  state.fresh = false;
  state.hidden.clear();
}

void DirectoryOverlay::add_fresh(const Node& directory, bool stays_empty) {
  const LockGuard lock(mutex_);
  DirectoryState& state = directories_[directory.key()].state;
  state = {};
  state.fresh = true;
  state.empty = stays_empty;
  state.made_here = true;
  state.made_in = directory.view;
  state.latest = std::chrono::steady_clock::now();
  for (const NamedFile& file : files_of(directory)) state.hidden.insert(file.kind);
}

void DirectoryOverlay::add_empty_root(const Node& root) {
  add_fresh(root, true);
  const LockGuard lock(mutex_);
  DirectoryState& state = directories_[root.key()].state;
  state.made_in.reset();
  state.made_here = false;
  // Those of all views.
  for (const FileKind file : {FileKind::zgroup, FileKind::zattrs, FileKind::zmetadata, FileKind::zarr_json})
    state.hidden.insert(file);
}

void DirectoryOverlay::note_made(const Node& directory) {
  const LockGuard lock(mutex_);
  const auto found = directories_.find(directory.key());
  if (found == directories_.end()) return;
  DirectoryState& state = found->second.state;
  state.latest = std::chrono::steady_clock::now();
  if (is_empty_root(state)) show_all(state);
  state.empty = false;
}

void DirectoryOverlay::end_fresh(const Node& directory) {
  const LockGuard lock(mutex_);
  const auto found = directories_.find(directory.key());
  if (found == directories_.end() || !found->second.state.fresh || is_shown_in(found->second.state, directory.view))
    return;
  show_all(found->second.state);
}

void DirectoryOverlay::show(const Node& directory, std::initializer_list<FileKind> files) {
  const LockGuard lock(mutex_);
  const auto found = directories_.find(directory.key());
  if (found == directories_.end() || !found->second.state.fresh) return;
  if (is_empty_root(found->second.state)) show_all(found->second.state);
  found->second.state.empty = false;
  for (const FileKind file : files) found->second.state.hidden.erase(file);
}

void DirectoryOverlay::hide(const Node& directory, FileKind file) {
  const LockGuard lock(mutex_);
  DirectoryState& state = directories_[directory.key()].state;
  end_if_expired(state);
  if (state.fresh && is_shown_in(state, directory.view)) show_all(state);  // a view that shows everything removes it
  state.hidden.insert(file);
}

bool DirectoryOverlay::note_rule_applied(const Node& directory) {
  const LockGuard lock(mutex_);
  return std::exchange(directories_[directory.key()].state.rule_applied, true);
}

void DirectoryOverlay::forget(const Node& directory) {
  const LockGuard lock(mutex_);
  directories_.erase(directory.key());
}

bool DirectoryOverlay::is_made(const Node& variable, uint64_t directory) const {
  const LockGuard lock(mutex_);
  const auto found = directories_.find(variable.key());
  return found != directories_.end() && found->second.made.contains(directory);
}

void DirectoryOverlay::add_made(const Node& variable, uint64_t directory) {
  const LockGuard lock(mutex_);
  directories_[variable.key()].made.insert(directory);
}

void DirectoryOverlay::forget_made(const Node& variable, uint64_t directory) {
  const LockGuard lock(mutex_);
  if (const auto found = directories_.find(variable.key()); found != directories_.end())
    found->second.made.erase(directory);
}

bool DirectoryOverlay::is_unlinked(const Node& directory, uint64_t number) const {
  const LockGuard lock(mutex_);
  const auto found = directories_.find(directory.key());
  return found != directories_.end() && found->second.unlinked.contains(number);
}

void DirectoryOverlay::add_unlinked(const Node& directory, uint64_t number) {
  const LockGuard lock(mutex_);
  directories_[directory.key()].unlinked.insert(number);
}

void DirectoryOverlay::forget_unlinked(const Node& directory, uint64_t number) {
  const LockGuard lock(mutex_);
  if (const auto found = directories_.find(directory.key()); found != directories_.end())
    found->second.unlinked.erase(number);
}

std::unordered_set<uint64_t> DirectoryOverlay::unlinked(const Node& directory) const {
  const LockGuard lock(mutex_);
  const auto found = directories_.find(directory.key());
  return found == directories_.end() ? std::unordered_set<uint64_t>() : found->second.unlinked;
}

}  // namespace codecfs::fs
