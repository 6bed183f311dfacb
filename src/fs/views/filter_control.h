#pragma once
// The filter pipelines of variables, and what changes them: the rules of the mount, specs and codecs that users write
// (user._Filter, _Codecs, metadata of the encoded views), and the pipelines of new variables. Thread-safe.

#include <functional>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "fs/context/mount_context.h"
#include "fs/views/change_notifier.h"
#include "fs/views/encoded_forms.h"
#include "fs/views/mount_rules.h"

namespace codecfs::fs {

class FilterControl {
 public:
  FilterControl(MountContext& mount, MountRules& rules, EncodedForms& forms, ChangeNotifier& notifier)
      : mount_(mount), rules_(rules), forms_(forms), notifier_(notifier) {}

  /// Applies the rules of the mount before the first change of a chunk. Re-encodes the variable if they differ from its
  /// pipeline. EINTR: cancelled, and nothing has changed. See RecodingPolicy for EBUSY; a thread that holds changes in
  /// memory leaves the rule to a later one if another variable is being re-encoded.
  Result<> apply_rules(const ChunkPlace& chunk, const Cancelled& cancelled);

  // Re-encode a variable: one at a time, see RecodingPolicy. EINVAL and ENOENT for invalid pipelines, EINTR as of
  // apply_rules(), and the errors of the source.
  Result<> set_spec(const Node& node, std::string_view spec, const Cancelled& cancelled);
  /// Like set_spec() with a text of `_FilterStored`: its parameters are complete, and its order stays.
  Result<> set_stored(const Node& node, std::string_view spec, const Cancelled& cancelled);
  Result<> set_codecs(const Node& node, std::string_view json, const Cancelled& cancelled);
  /// Encodes again the chunks of which HDF5 skipped filters, as set_spec() and set_codecs() do if the variable has the
  /// pipeline already.
  Result<> encode_masked_chunks(const Node& node, const Cancelled& cancelled);
  /// Whether set_spec() (else set_codecs()) would accept this text, without changing anything. EINVAL, ENOENT.
  Result<> check_text(const Node& node, bool is_spec, std::string_view text);
  /// Gives an existing variable the codecs of a .zarray or zarr.json, if they differ.
  Result<> apply_codecs(Ino directory, const Variable& wanted, const Cancelled& cancelled);
  /// Stores an existing variable of a source of Zarr v3 in the shards of a zarr.json, or without shards, and with its
  /// codecs.
  Result<> set_sharding(Ino directory, Variable wanted, const Cancelled& cancelled);
  /// Sets or removes one of netCDF's special attributes: `name` without "user.". EPERM for those that cannot change.
  Result<> set_special(const Node& node, std::string_view name, std::string_view value, const Cancelled& cancelled);
  Result<> remove_special(const Node& node, std::string_view name, const Cancelled& cancelled);

  /// The pipeline of new variables below a group, as a spec (`name` "_Filter") or codecs ("_Codecs").
  Result<> set_default_chain(const Node& group, std::string_view name, std::string_view value);
  void remove_default_chain(const Node& group);
  /// The pipeline of a new variable.
  Result<std::vector<FilterStage>> chain_for_new(const Node& node, const Variable& variable);
  /// The pipeline for the source that corresponds to the codecs of a .zarray or zarr.json.
  /// `written`: what DirectoryState::codecs must be in that case.
  Result<std::vector<FilterStage>> chain_for_codecs(const Node& node, const Variable& wanted,
                                                    std::optional<DirectoryState::WrittenCodecs>& written);
  /// Whether a rule of the mount takes precedence over a file _Filter or _Codecs that is copied into a new variable.
  [[nodiscard]] bool is_overruled(const Node& node);

 private:
  /// `made_of`: the state that the pipeline was derived from; EAGAIN if the variable has another pipeline now.
  Result<> set_chain(const Node& node, std::vector<FilterStage> chain, const Cancelled& cancelled,
                     const VariableView* made_of = nullptr);
  /// Logs, once, that a pipeline in HDF5 has filters that other programs have only with a plugin.
  void tell_plugins(const Node& node, std::span<const FilterStage> chain);
  /// What setting the pipeline that a variable has already does: skipped filters are applied, and its rule ends.
  Result<> keep_chain(const Node& node, const Cancelled& cancelled);
  Result<Recodings::Turn> begin_turn(const Node& node);
  Result<> reencode(const Node& node, Recodings::Turn& turn, Progress& progress, const Cancelled& cancelled,
                    const std::function<Result<>()>& change);
  /// The pipeline in a text of `_Codecs`, in either form, for the source of the node. `variable`: the one that gets it;
  /// null: any new one. EINVAL.
  Result<std::vector<FilterStage>> parse_codecs(const Node& node, std::string_view text, const Variable* variable);
  Result<> edit_chain(const Node& node, std::string_view name, std::string_view value, const Cancelled& cancelled);
  Result<std::vector<FilterStage>> find_chain_for_new(const Node& node, const Variable& variable);
  Result<std::optional<std::vector<FilterStage>>> spooled_chain(const Node& group, const Variable& variable);

  MountContext& mount_;
  MountRules& rules_;
  EncodedForms& forms_;
  ChangeNotifier& notifier_;
  std::once_flag told_plugins_;
};

}  // namespace codecfs::fs
