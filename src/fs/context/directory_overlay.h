#pragma once
// State of the directories of this mount that their source does not store: files that are hidden until they are
// written, filter pipelines for new variables, chunks that were unlinked before their variable. It exists in memory
// only. All views of a directory share it, unless stated otherwise. Thread-safe.

#include <chrono>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/mutex.h"
#include "fs/nodes/nodes.h"
#include "model/variable.h"

namespace codecfs::fs {

struct DirectoryState {
  // Created in this mount less than kFresh ago and not listed since: shows only files that were written, because cp
  // fails on a file that already exists in a directory that cp itself has created.
  bool fresh = false;
  // A fresh group in which nothing was made, in any view: stays fresh as long, and listings do not end it, because
  // zarr's mode "w-" fails on a directory with metadata.
  bool empty = false;
  bool made_here = false;                        // created in this mount
  std::optional<View> made_in;                   // the view in which it is fresh; others show everything. None: each
  std::chrono::steady_clock::time_point latest;  // when an entry was last created in it while fresh
  std::set<FileKind> hidden;                     // metadata files that are not shown: not written yet, or removed
  std::chrono::steady_clock::time_point kept;    // when -o nodelete last refused to remove a metadata file
  bool refused_v3 = false;    // of a group: zarr.json was refused, and no v2 metadata was written since
  bool rule_applied = false;  // of a variable: the filter rules of the mount have been applied
  std::optional<std::vector<FilterStage>> chain;       // of a group: the filters of new variables
  std::optional<std::vector<std::string>> dimensions;  // of a group: names that were written before the .zarray
  /// Of a variable in encoded views of one version of Zarr: the codecs that were written, where the source's filters
  /// are shown as others. Chunks that the client encodes with them are decoded and stored.
  struct WrittenCodecs {
    const MetadataFormat* format = nullptr;
    std::vector<FilterStage> chain;
  };
  std::optional<WrittenCodecs> codecs;
};

/// Whether a directory is that of a variable whose .zarray was removed: rm -r has begun to remove the variable.
bool is_condemned(const Node& node, const DirectoryState& state);

class DirectoryOverlay {
 public:
  /// The state for the view of `directory`: it is fresh only in the view where it was created, and for at most kFresh.
  [[nodiscard]] DirectoryState state_of(const Node& directory) const;
  /// Calls `change` with the state, under the lock.
  template <class Change>
  void change(const Node& directory, Change change) {
    const LockGuard lock(mutex_);
    DirectoryState& state = directories_[directory.key()].state;
    end_if_expired(state);
    change(state);
  }
  /// Marks a new directory as fresh, with its metadata files hidden. `stays_empty`: until something is made in it; else
  /// for kFresh.
  void add_fresh(const Node& directory, bool stays_empty);
  /// The same for the root of a source in which there is nothing yet: its metadata files are hidden in each view, and
  /// all are shown as soon as something is made in one.
  void add_empty_root(const Node& root);
  /// An entry is created in a fresh directory, in any view: it is empty no more, and stays fresh for another kFresh.
  void note_made(const Node& directory);
  /// A fresh directory was listed: it shows everything from now on.
  void end_fresh(const Node& directory);
  /// Shows these files of a fresh directory.
  void show(const Node& directory, std::initializer_list<FileKind> files);
  /// A metadata file was removed: it is not shown until it is written again.
  void hide(const Node& directory, FileKind file);
  /// Sets rule_applied and returns its previous value.
  bool note_rule_applied(const Node& directory);
  void forget(const Node& directory);

  /// The directories of chunks that were made in a fresh directory of a variable, by their numbers: others are not
  /// there yet, because cp fails on a directory that already exists in a directory that cp itself has created.
  [[nodiscard]] bool is_made(const Node& variable, uint64_t directory) const;
  void add_made(const Node& variable, uint64_t directory);
  void forget_made(const Node& variable, uint64_t directory);

  /// Chunks of a condemned variable that were unlinked after its .zarray. They are not shown; they are removed with the
  /// variable, or when a new .zarray keeps it.
  [[nodiscard]] bool is_unlinked(const Node& directory, uint64_t number) const;
  void add_unlinked(const Node& directory, uint64_t number);
  void forget_unlinked(const Node& directory, uint64_t number);
  [[nodiscard]] std::unordered_set<uint64_t> unlinked(const Node& directory) const;

  /// Longer than cp takes between two files.
  static constexpr std::chrono::seconds kFresh{10};

 private:
  struct Directory {
    DirectoryState state;
    std::unordered_set<uint64_t> unlinked;
    std::unordered_set<uint64_t> made;
  };
  static void end_if_expired(DirectoryState& state);
  static void show_all(DirectoryState& state);
  static bool is_shown_in(const DirectoryState& state, View view) { return state.made_in && *state.made_in != view; }
  static bool is_empty_root(const DirectoryState& state) { return state.fresh && !state.made_in; }

  mutable Mutex mutex_;
  std::unordered_map<Ino, Directory> directories_ CODECFS_GUARDED_BY(mutex_);  // by Node::key()
};

}  // namespace codecfs::fs
