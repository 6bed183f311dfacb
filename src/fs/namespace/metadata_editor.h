#pragma once
// Does what a written metadata file says: attributes, dimensions, shapes, filters, and new variables. Thread-safe.
//
// Locks, in this order: Tree::layout, shared; then a variable's pause in WriteBack.

#include <string_view>
#include <vector>

#include "fs/context/mount_context.h"
#include "fs/nodes/zarr3_files.h"
#include "fs/views/change_notifier.h"
#include "fs/views/chunk_files.h"
#include "fs/views/coherence_monitor.h"
#include "fs/views/encoded_forms.h"
#include "fs/views/filter_control.h"

namespace codecfs::fs {

class MetadataEditor {
 public:
  MetadataEditor(MountContext& mount, EncodedForms& forms, CoherenceMonitor& coherence, FilterControl& filters,
                 ChangeNotifier& notifier, ChunkFiles& chunk_files)
      : mount_(mount),
        forms_(forms),
        coherence_(coherence),
        filters_(filters),
        notifier_(notifier),
        chunk_files_(chunk_files) {}

  /// `ino`: of a metadata file, or of a chunk of the encoded view, whose whole content is `text`. EINVAL if it cannot
  /// be done, EINTR if it was cancelled; nothing has changed then.
  Result<> apply(Ino ino, std::string_view text, const Cancelled& cancelled);
  /// Whether apply() can succeed, as far as the text tells, once all of it is written: it may end in the middle of JSON
  /// or of a line. EINVAL, ENOENT.
  Result<> check(Ino ino, std::string_view text);

 private:
  Result<> check_text(const Place& place, std::string_view text);
  Result<> apply_zgroup(Ino directory, std::string_view text);
  Result<> apply_zattrs(Ino directory, std::string_view text);
  Result<> apply_zarray(Ino directory, std::string_view text, const Cancelled& cancelled);
  Result<> resize(const Node& node, const std::vector<uint64_t>& shape);
  Result<> remove_unlinked(const Node& node);
  /// A file of a chunk that came before the zarr.json, or a group that was made for such files.
  struct Spooled {
    std::vector<uint64_t> coordinates;
    const Node* group = nullptr;
    std::string name;  // empty: the group itself
  };
  /// The group becomes a variable of this type and shape. `spooled`: gets what came for it before its zarr.json.
  Result<> make_variable(Ino directory, Variable variable, std::vector<Spooled>* spooled = nullptr);
  Result<> replace_group(const Node& parent, const Node& group, const Variable& variable,
                         std::vector<Spooled>* spooled);
  void announce_variable(const Node& variable);
  /// Chunks that came before the .zarray, as cp -r may bring them.
  void adopt_spooled(const Node& variable);
  void adopt_chunk(const Node& variable, const ChunkPlace& chunk, Ino directory, const std::string& name);

  // metadata_editor_zarr3.cc
  /// Whether an attribute _FillValue is a value of the variable, and not the fill value of absent chunks.
  static bool is_other_fill(const Variable& variable, const Json& value);
  Result<> apply_zarr_json(Ino directory, std::string_view text, const Cancelled& cancelled);
  Result<> change_array(Ino directory, const WrittenZarr3& written, const Cancelled& cancelled);
  void take_listed_names(WrittenZarr3& written) const;
  struct Names {
    std::optional<OptionalNames> shown;
    std::optional<OptionalNames> wanted;
  };
  [[nodiscard]] Result<std::optional<Names>> changed_names(const Variable& now, const Variable& wanted) const;
  Result<> set_names(const Node& node, const std::optional<OptionalNames>& names);
  Result<> change_attributes(const Node& node, const WrittenAttributes& written, const WrittenAttributes& shown,
                             const std::optional<Names>& names);
  Result<> make_array(Ino directory, WrittenZarr3 written);
  Result<std::vector<Spooled>> take_spooled(const Node& group);
  static std::vector<Nodes::FormerGroup> directories_of(const std::vector<Spooled>& spooled, const ChunkGrid& grid);
  Result<> keep_temporary(const Node& former);
  Result<bool> find_spooled(const Node& group, std::vector<uint64_t> prefix, std::vector<Spooled>& spooled);
  void adopt_spooled(const Node& variable, const Spooled& spooled);
  Result<> remove_groups(const Node& group);

  MountContext& mount_;
  EncodedForms& forms_;
  CoherenceMonitor& coherence_;
  FilterControl& filters_;
  ChangeNotifier& notifier_;
  ChunkFiles& chunk_files_;
};

}  // namespace codecfs::fs
