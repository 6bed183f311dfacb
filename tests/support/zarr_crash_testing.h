#pragma once
// Simulates the state of a store in a directory when the program is killed, or the power fails: every change is
// recorded and replayed on a disk in memory.
//
// A power failure keeps, for a file, what was synced, and of unsynced writes none, all, or any subset of the 512-byte
// sectors; for a directory, the synced names, and of later changes none, all, or any subset (a rename is one change; a
// directory whose name is lost is lost with its content).

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/file_io.h"

namespace codecfs::zarr_crash_testing {

namespace files = std::filesystem;

// The record --------------------------------------------------------------------------------------------------------

struct Created {
  std::string directory, name;
};
struct Written {
  std::string file;
  uint64_t offset;
  std::string bytes;
};
struct Synced {
  std::string path;
};
struct DirectoryMade {
  std::string directory, name;
};
struct Renamed {
  std::string directory, from, to;
};
struct Unlinked {
  std::string directory, name;
};
struct Moved {
  std::string from_directory, from, to_directory, to;
};
struct Exchanged {
  std::string directory, one, other;
};
/// The content that a chunk file (or, as chunk 0 of "", the whole tree) may have from now on, and must have if
/// `is_done`; none: the chunk is absent.
struct Changed {
  std::string variable;
  uint64_t number;
  std::optional<std::string> chunk;
  bool is_done;
};
struct Committed {
  bool is_done;
};
using Event =
    std::variant<Created, Written, Synced, DirectoryMade, Renamed, Unlinked, Moved, Exchanged, Changed, Committed>;

/// Performs everything except syncs, one call at a time, and records it. Paths are relative to the store.
class RecordingIo : public FileIo {
 public:
  Result<File> create(const File& directory, const std::string& name, mode_t mode) override {
    const std::lock_guard lock(mutex_);
    auto file = real_file_io().create(directory, name, mode);
    if (file) events_.emplace_back(Created{directory.path, name});
    return file;
  }
  Result<> write(const File& file, uint64_t offset, Bytes bytes) override {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return note(real_file_io().write(file, offset, bytes), Written{file.path, offset, text});
  }
  Result<> truncate(const File&, uint64_t) override { return fail(ENOSYS, "not recorded"); }
  Result<> sync_data(const File&) override { return fail(ENOSYS, "not recorded"); }
  Result<> sync(const File& file) override { return note({}, Synced{file.path}); }
  Result<> sync_filesystem(const File&) override { return {}; }
  Result<> make_directory(const File& directory, const std::string& name, mode_t mode) override {
    const std::lock_guard lock(mutex_);
    Result<> made = real_file_io().make_directory(directory, name, mode);
    if (made) events_.emplace_back(DirectoryMade{directory.path, name});
    return made;
  }
  Result<> rename(const File& directory, const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    Result<> renamed = real_file_io().rename(directory, from, to);
    if (renamed) events_.emplace_back(Renamed{directory.path, from, to});
    return renamed;
  }
  Result<> unlink(const File& directory, const std::string& name) override {
    const std::lock_guard lock(mutex_);
    Result<> removed = real_file_io().unlink(directory, name);
    if (removed) events_.emplace_back(Unlinked{directory.path, name});
    return removed;
  }
  Result<> move(const File& from_directory, const std::string& from, const File& to_directory,
                const std::string& to) override {
    const std::lock_guard lock(mutex_);
    Result<> moved = real_file_io().move(from_directory, from, to_directory, to);
    if (moved) events_.emplace_back(Moved{from_directory.path, from, to_directory.path, to});
    return moved;
  }
  Result<> exchange(const File& directory, const std::string& one, const std::string& other) override {
    const std::lock_guard lock(mutex_);
    Result<> exchanged = real_file_io().exchange(directory, one, other);
    if (exchanged) events_.emplace_back(Exchanged{directory.path, one, other});
    return exchanged;
  }
  Result<> remove_directory(const File& directory, const std::string& name) override {
    const std::lock_guard lock(mutex_);
    Result<> removed = real_file_io().remove_directory(directory, name);
    if (removed) events_.emplace_back(Unlinked{directory.path, name});
    return removed;
  }

  void mark(Event event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  const std::vector<Event>& events() const { return events_; }
  std::vector<Event>& events() { return events_; }

 private:
  Result<> note(Result<> done, Event event) {
    if (done) mark(std::move(event));
    return done;
  }

  std::mutex mutex_;  // held during calls whose order matters, so that the record has the same order
  std::vector<Event> events_;
};

// The disk ----------------------------------------------------------------------------------------------------------

/// A store in memory, with the part of it that is durable.
class Disk {
 public:
  /// A change of a name in a directory: the node that it refers to afterwards, none if it was removed.
  struct Change {
    std::vector<std::pair<std::string, std::optional<size_t>>> names;
    size_t event;  // a move between directories is the same event in both
  };
  struct Node {
    bool is_directory = false;
    std::string content, durable_content;  // of files
    std::vector<Written> pending;          // since the last sync
    // Of directories:
    std::map<std::string, size_t> names, durable_names;
    std::vector<Change> changes;  // of names since the last sync
  };

  /// Loads a directory; all of its content is durable.
  explicit Disk(const files::path& directory) { load(directory); }

  void apply(const Event& event) {
    ++events_;
    if (const auto* created = std::get_if<Created>(&event)) {
      add_name(created->directory, created->name, false);
      open_files_[created->directory + "/" + created->name] = nodes_.size() - 1;
    } else if (const auto* made = std::get_if<DirectoryMade>(&event)) {
      add_name(made->directory, made->name, true);
    } else if (const auto* written = std::get_if<Written>(&event)) {
      Node& node = nodes_[open_files_.at(written->file)];
      put(node.content, written->offset, written->bytes);
      node.pending.push_back(*written);
    } else if (const auto* synced = std::get_if<Synced>(&event)) {
      const auto file = open_files_.find(synced->path);
      sync(file != open_files_.end() ? file->second : find(synced->path));
    } else if (const auto* renamed = std::get_if<Renamed>(&event)) {
      const size_t directory = find(renamed->directory);
      change(directory, {{renamed->from, std::nullopt}, {renamed->to, nodes_[directory].names.at(renamed->from)}});
    } else if (const auto* unlinked = std::get_if<Unlinked>(&event)) {
      change(find(unlinked->directory), {{unlinked->name, std::nullopt}});
    } else if (const auto* moved = std::get_if<Moved>(&event)) {
      const size_t from = find(moved->from_directory);
      const size_t node = nodes_[from].names.at(moved->from);
      change(from, {{moved->from, std::nullopt}});
      change(find(moved->to_directory), {{moved->to, node}});
    } else if (const auto* exchanged = std::get_if<Exchanged>(&event)) {
      const size_t directory = find(exchanged->directory);
      const auto& names = nodes_[directory].names;
      change(directory, {{exchanged->one, names.at(exchanged->other)}, {exchanged->other, names.at(exchanged->one)}});
    }
  }

  /// Selects how much unsynced state survives. Called once for each change of a name and each sector.
  struct Cut {
    std::function<bool()> keeps_name;
    std::function<bool()> keeps_sector;
  };

  /// Files with their content and directories (none), by path: the state after a power failure or (without a Cut) a
  /// kill.
  using Left = std::map<std::string, std::optional<std::string>>;
  Left left(const Cut* cut) const {
    Left result;
    std::map<size_t, bool> kept;
    collect(0, "", cut, kept, result);
    return result;
  }

 private:
  static void put(std::string& content, uint64_t offset, std::string_view bytes) {
    if (content.size() < offset + bytes.size()) content.resize(offset + bytes.size());
    content.replace(offset, bytes.size(), bytes);
  }

  size_t load(const files::path& path) {
    const size_t number = nodes_.size();
    nodes_.emplace_back();
    if (!files::is_directory(path)) {
      std::ifstream in(path, std::ios::binary);
      nodes_[number].content = nodes_[number].durable_content = {std::istreambuf_iterator<char>(in), {}};
      return number;
    }
    nodes_[number].is_directory = true;
    for (const auto& entry : files::directory_iterator(path)) {
      const size_t child = load(entry.path());
      nodes_[number].names[entry.path().filename()] = child;
    }
    nodes_[number].durable_names = nodes_[number].names;
    return number;
  }

  size_t find(const std::string& path) const {
    size_t at = 0;
    for (const auto& part : files::path(path))
      if (part != ".") at = nodes_[at].names.at(part);
    return at;
  }

  /// `name` may have several components.
  void add_name(const std::string& directory, const std::string& name, bool is_directory) {
    nodes_.emplace_back().is_directory = is_directory;
    const files::path path = files::path(directory) / name;
    change(find(path.parent_path()), {{path.filename(), nodes_.size() - 1}});
  }

  static void set_names(std::map<std::string, size_t>& names, const Change& change) {
    for (const auto& [name, node] : change.names) {
      if (node) {
        names[name] = *node;
      } else {
        names.erase(name);
      }
    }
  }

  void change(size_t directory, std::vector<std::pair<std::string, std::optional<size_t>>> names) {
    Node& node = nodes_[directory];
    node.changes.push_back({std::move(names), events_});
    set_names(node.names, node.changes.back());
  }

  void sync(size_t number) {
    Node& node = nodes_[number];
    node.durable_content = node.content;
    node.pending.clear();
    node.durable_names = node.names;
    // A move between directories is one transaction of the filesystem's journal: both directories have it, or neither.
    for (const Change& change : std::exchange(node.changes, {})) {
      for (Node& other : nodes_) {
        const auto same = std::ranges::find(other.changes, change.event, &Change::event);
        if (same == other.changes.end()) continue;
        set_names(other.durable_names, *same);
        other.changes.erase(same);
      }
    }
  }

  static std::map<std::string, size_t> surviving_names(const Node& node, const Cut* cut, std::map<size_t, bool>& kept) {
    if (cut == nullptr) return node.names;
    std::map<std::string, size_t> names = node.durable_names;
    for (const Change& change : node.changes) {
      if (!kept.contains(change.event)) kept[change.event] = cut->keeps_name();
      if (kept[change.event]) set_names(names, change);
    }
    return names;
  }

  static std::string surviving_content(const Node& node, const Cut* cut) {
    if (cut == nullptr) return node.content;
    static constexpr size_t kSector = 512;
    std::string content = node.durable_content;
    for (const Written& written : node.pending)
      for (size_t start = 0; start < written.bytes.size(); start += kSector)
        if (cut->keeps_sector())
          put(content, written.offset + start, std::string_view(written.bytes).substr(start, kSector));
    return content;
  }

  void collect(size_t number, const std::string& path, const Cut* cut, std::map<size_t, bool>& kept,
               Left& result) const {
    const Node& node = nodes_[number];
    if (!node.is_directory) {
      result[path] = surviving_content(node, cut);
      return;
    }
    result[path] = std::nullopt;
    for (const auto& [name, child] : surviving_names(node, cut, kept))
      collect(child, path.empty() ? name : path + "/" + name, cut, kept, result);
  }

  std::vector<Node> nodes_;  // the first is the store
  std::map<std::string, size_t> open_files_;
  size_t events_ = 0;
};

/// Makes a directory match a state with the fewest changes.
class Copy {
 public:
  explicit Copy(files::path directory) : directory_(std::move(directory)) {}

  void match(const Disk::Left& left) {
    for (auto at = now_.rbegin(); at != now_.rend(); ++at)  // the content of a directory before the directory
      if (const auto stays = left.find(at->first);
          stays == left.end() || stays->second.has_value() != at->second.has_value())
        files::remove(directory_ / at->first);
    for (const auto& [path, content] : left) {
      const auto old = now_.find(path);
      if (old != now_.end() && old->second == content) continue;
      if (content) {
        std::ofstream(directory_ / path, std::ios::binary) << *content;
      } else {
        files::create_directory(directory_ / path);
      }
    }
    now_ = left;
  }
  /// Another test changed it: the next call makes it again.
  void forget() {
    files::remove_all(directory_);
    now_.clear();
  }

 private:
  files::path directory_;
  Disk::Left now_;
};

// What chunks may be ------------------------------------------------------------------------------------------------

using Chunk = std::optional<std::string>;

/// The values that a chunk had, and which of them are permitted.
struct History {
  struct Value {
    Chunk chunk;
    bool is_done = false;  // the call returned
  };
  std::vector<Value> values;
  size_t committed = 0;   // the first value that a power failure may leave
  size_t committing = 0;  // what `committed` becomes if the running commit succeeds

  size_t last_done() const {
    size_t last = 0;
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i].is_done) last = i;
    return last;
  }
  bool may_be(const Chunk& chunk, bool after_power_cut) const {
    const size_t first = after_power_cut ? committed : last_done();
    return std::any_of(values.begin() + static_cast<ptrdiff_t>(first), values.end(),
                       [&](const Value& value) { return value.chunk == chunk; });
  }
};

using Key = std::pair<std::string, uint64_t>;
using Histories = std::map<Key, History>;

inline void relocate_log(Histories& histories, const Event& event) {
  if (const auto* changed = std::get_if<Changed>(&event)) {
    History& history = histories.at({changed->variable, changed->number});
    if (changed->is_done) {
      history.values.back().is_done = true;
    } else {
      history.values.push_back({changed->chunk, false});
    }
  } else if (const auto* commit = std::get_if<Committed>(&event)) {
    for (auto& [key, history] : histories) {
      if (commit->is_done) {
        history.committed = history.committing;
      } else {
        history.committing = history.last_done();
      }
    }
  }
}

}  // namespace codecfs::zarr_crash_testing
