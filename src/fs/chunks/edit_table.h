#pragma once
// The changed chunks of a mount, and the order in which they are stored.
//
// Each edit is in one list, by what it waits for. So choosing edits to store takes time in proportion to the chosen
// ones, not to all. Not thread-safe: the owner of the table guards it, and the states of its edits.

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "fs/chunks/edit_content.h"
#include "fs/nodes/chunk_place.h"

namespace codecfs::fs {

/// A changed chunk.
class Edit {
 public:
  explicit Edit(const ChunkPlace& chunk) : place(chunk) {}

  const ChunkPlace place;
  Mutex loading_mutex{LockRank::edit_loading};  // one load() at a time
  Mutex content_mutex{LockRank::edit_content};
  EditContent content CODECFS_GUARDED_BY(content_mutex);

  /// Reads the base of the content unless there is one. Concurrent callers read it once, and readers of the content do
  /// not wait. The caller holds no lock.
  using ReadBase = std::function<Result<ChunkPtr>(const ChunkPlace&)>;
  Result<> load(const ReadBase& read_base);
  /// As load(), with the version of the base.
  struct Base {
    Buffer chunk;
    std::optional<std::string> version;
  };
  using FetchBase = std::function<Result<Base>(const ChunkPlace&)>;
  Result<> load_version(const FetchBase& fetch_base);
  /// The content, under its mutex.
  std::optional<EditContent::State> look();
  /// The content, to be stored, and what is known of it. At the end of its lifetime, unless stored() was called, the
  /// bytes count as written again. The edit must outlive it, and its content_mutex not be held then.
  class [[nodiscard]] Taken {
   public:
    Taken(Taken&& other) noexcept;
    Taken& operator=(Taken&&) = delete;
    ~Taken();
    void stored() { written = {}; }

    EditContent::State content;
    ByteSet written;  // since the last call
    bool is_own = false;
    std::optional<std::string> version;

   private:
    friend class Edit;
    explicit Taken(Edit& owner) : owner_(&owner) {}

    Edit* owner_;
  };
  Taken take();

  // The state, guarded by the owner of the table.
  /// Number of changes.
  [[nodiscard]] uint64_t version() const { return version_; }
  [[nodiscard]] uint64_t stored_version() const { return stored_version_; }
  [[nodiscard]] bool is_dirty() const { return dirty_; }
  /// Whether it was closed since it became dirty.
  [[nodiscard]] bool is_closed() const { return closed_; }
  [[nodiscard]] bool is_pinned() const { return pins_ > 0; }
  [[nodiscard]] bool is_storing() const { return storing_; }
  [[nodiscard]] bool is_underway() const { return wanted_ || storing_; }
  /// EditContent::is_replacing().
  [[nodiscard]] bool is_replacing() const { return replacing_; }
  /// Whether it must not be stored, because its variable is being re-encoded.
  [[nodiscard]] bool is_held() const { return held_; }
  /// The error of the latest try to store the edit.
  [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }

 private:
  friend class EditTable;
  enum class Stage { idle, open, closed, failed, waiting, storing };

  uint64_t version_ = 0;
  uint64_t stored_version_ = 0;
  uint64_t storing_version_ = 0;  // the version that an encoder took
  std::optional<Error> failure_;
  EditContent::Size charged_;  // its share of the table's dirty()
  unsigned pins_ = 0;
  bool dirty_ = false;
  bool closed_ = false;
  bool wanted_ = false;    // an encoder must take it
  bool storing_ = false;   // an encoder has taken it
  bool removing_ = false;  // must not be stored
  bool held_ = false;      // must not be stored until release() of its variable
  bool short_ = false;     // its file is shorter than the chunk
  bool replacing_ = false;
  uint64_t replaced_version_ = 0;  // the version that a replacement began with
  bool dropped_ = false;           // no longer in the table
  Stage stage_ = Stage::idle;
  std::list<std::shared_ptr<Edit>>::iterator position_;  // in the list of its stage
  std::shared_ptr<Edit> next_;                           // see EditTable::chain_of()
};
using EditPtr = std::shared_ptr<Edit>;

class EditTable {
 public:
  using Filter = std::function<bool(const Edit&)>;

  /// Null if the chunk has no edit.
  [[nodiscard]] EditPtr find(ChunkKey key) const;
  /// The edits of a variable that `filter` accepts.
  [[nodiscard]] std::vector<EditPtr> of(ObjectId variable, const Filter& filter) const;
  [[nodiscard]] bool any_of(ObjectId variable, const Filter& filter) const;
  /// As of(), without memory: each edit refers to the next one. One caller at a time for a variable, which calls
  /// next_of() of each.
  [[nodiscard]] EditPtr chain_of(ObjectId variable, const Filter& filter) const;
  static EditPtr next_of(Edit& edit) { return std::exchange(edit.next_, nullptr); }
  /// The size of all dirty edits that can be stored, and of those that hold() keeps from it.
  [[nodiscard]] const EditContent::Size& dirty() const { return dirty_; }
  [[nodiscard]] const EditContent::Size& held() const { return held_size_; }

  /// The edit of the chunk, new if there is none. It stays until unpin().
  EditPtr pin(const ChunkPlace& place);
  static void unpin(Edit& edit) { --edit.pins_; }
  /// The content has changed. `size`, `is_short`, `is_replacing`: those of the content now.
  void note_changed(Edit& edit, const EditContent::Size& size, bool is_short, bool is_replacing = false);
  /// The file has the length of its chunk again.
  static void note_whole(Edit& edit) { edit.short_ = edit.replacing_ = false; }
  /// EditContent::accept_replacement().
  static void note_accepted(Edit& edit) { edit.replacing_ = false; }
  /// If it is dirty: no further change is expected soon.
  void close(Edit& edit);
  /// Whether the edit is being removed and so must not be stored.
  void set_removing(Edit& edit, bool removing);
  /// Keeps all edits of a variable from being stored, also those that are made from now on. None may be being stored.
  void hold(ObjectId variable);
  void release(ObjectId variable);
  /// Removes the edit; its changes are not stored. Takes no memory.
  void drop(Edit& edit);
  /// Removes the edits of a variable that `filter` accepts.
  void drop_all(ObjectId variable, const Filter& filter);
  /// Removes the edit if it is stored and not in use. Returns whether it did. `has_writers`: a file that is shorter
  /// than its chunk keeps its edit.
  bool drop_if_clean(Edit& edit, bool has_writers);

  // The choice of edits to be stored. These functions return the number of edits that they enqueued.
  size_t enqueue(Edit& edit);
  /// Closed edits, except for failed ones.
  size_t enqueue_closed();
  /// Closed edits, except for failed ones, and open ones that `can_be_stored` accepts.
  size_t enqueue_dirty(const Filter& can_be_stored);
  /// As enqueue_dirty(), and failed edits.
  size_t enqueue_all(const Filter& can_be_stored);
  /// Treats closed edits that have failed like others.
  void forget_failures();
  /// The edits that are enqueued or being stored.
  [[nodiscard]] std::vector<EditPtr> underway() const;
  [[nodiscard]] bool any_underway() const { return storing_ > 0 || !list(Stage::waiting).empty(); }
  /// The failure of an edit that is not enqueued again; null if there is none.
  [[nodiscard]] const Error* failure() const;

  /// For encoders: the first enqueued edit that is not being stored; null if there is none. note_stored() or
  /// note_failed() must follow.
  EditPtr take();
  /// After take(): the edits of the same variable that follow that one in the queue, until `edits` has as many as it
  /// has room for.
  void take_more(std::vector<EditPtr>& edits);
  [[nodiscard]] size_t count_enqueued() const { return list(Stage::waiting).size(); }
  /// Closed ones that are not enqueued.
  [[nodiscard]] size_t count_closed() const { return list(Stage::closed).size(); }
  void note_stored(Edit& edit);
  void note_failed(Edit& edit, Error error);

 private:
  using Stage = Edit::Stage;
  static constexpr size_t kStages = 6;

  std::list<EditPtr>& list(Stage stage) { return stages_[static_cast<size_t>(stage)]; }
  [[nodiscard]] const std::list<EditPtr>& list(Stage stage) const { return stages_[static_cast<size_t>(stage)]; }
  static Stage stage_of(const Edit& edit);
  bool begin_storing(Edit& edit);
  void update(Edit& edit);
  void charge(Edit& edit, const EditContent::Size& size);
  size_t enqueue_stage(Stage stage, const Filter& can_be_stored);

  std::unordered_map<ChunkKey, EditPtr> edits_;
  std::array<std::list<EditPtr>, kStages> stages_;  // earliest first
  size_t storing_ = 0;                              // edits that are being stored
  EditContent::Size dirty_;
  EditContent::Size held_size_;
  std::set<ObjectId> held_;  // variables
};

}  // namespace codecfs::fs
