#include "backends/zarr/source/member_changes.h"

#include <memory>
#include <utility>

#include "backends/zarr/metadata/metadata_write.h"
#include "backends/zarr/metadata/zarr3_write.h"
#include "backends/zarr/source/access.h"
#include "backends/zarr/source/nczarr_changes.h"

namespace codecfs::zarr {

Result<Entry> MemberChanges::make_group(ObjectId parent, std::string_view name) {
  const auto lock = store_.changing_keys();
  CODECFS_ASSIGN(const Object group, editor_.group_to_change(parent));
  CODECFS_ASSIGN(const std::string file_name, store_.hierarchy().free_name(group.key, name));
  CODECFS_ASSIGN(const Modes modes, modes_for_members(store_.hierarchy(), group.key));
  CODECFS_ASSIGN(auto fresh, writer_.new_directory(group.key, file_name, modes.directory));
  if (is_v3()) {
    CODECFS_TRY(fresh->write(kZarr3File, bytes_of(print_zarr3_group()), modes.file));
    CODECFS_TRY(fresh->place(file_name));
    return made(group.key, file_name, EntryKind::group);
  }
  CODECFS_ASSIGN(const auto nczarr, nczarr_new_group(store_.hierarchy(), group.key, file_name));
  for (const auto& [file, text] : nczarr.files) CODECFS_TRY(fresh->write(file, bytes_of(text), modes.file));
  CODECFS_TRY(editor_.with_lists(
      nczarr.plan, {group.key}, [&] { return fresh->place(file_name); }, [&] { discard(group.key, file_name); }));
  return made(group.key, file_name, EntryKind::group);
}

Result<Entry> MemberChanges::make_variable(ObjectId parent, std::string_view name, const Variable& variable) {
  std::unique_ptr<NewDirectory> fresh;  // declared first: deletes the replaced group after the locks are released
  const auto places = store_.changing_places();
  const auto lock = store_.changing_keys();
  CODECFS_ASSIGN(const Object group, editor_.group_to_change(parent));
  CODECFS_ASSIGN(const bool takes_place, is_empty_group(group, name));
  CODECFS_ASSIGN(const std::string file_name,
                 takes_place ? Hierarchy::new_name(group.key, name) : store_.hierarchy().free_name(group.key, name));
  const std::string key = join_key(group.key, file_name);
  if (is_v3()) {
    const auto text = print_zarr3_array(variable);
    if (!text) return in_file(key, text.error());
    CODECFS_ASSIGN(const Modes modes, modes_for_members(store_.hierarchy(), group.key));
    CODECFS_ASSIGN(fresh, writer_.new_directory(group.key, file_name, modes.directory));
    CODECFS_TRY(fresh->write(kZarr3File, bytes_of(*text), modes.file));
    CODECFS_TRY(takes_place ? fresh->exchange(file_name) : fresh->place(file_name));
    return made(group.key, file_name, EntryKind::variable);
  }
  auto plain = print_array(variable);
  if (!plain) return in_file(key, plain.error());
  const auto nczarr = nczarr_new_array(store_.hierarchy(), group.key, file_name, variable, std::move(*plain));
  if (!nczarr) return in_file(key, nczarr.error());
  const NewArray& files = nczarr->files;
  CODECFS_ASSIGN(const Modes modes, modes_for_members(store_.hierarchy(), group.key));
  CODECFS_ASSIGN(fresh, writer_.new_directory(group.key, file_name, modes.directory));
  CODECFS_TRY(fresh->write(kArrayFile, bytes_of(files.zarray), modes.file));
  if (files.zattrs) CODECFS_TRY(fresh->write(kAttributesFile, bytes_of(*files.zattrs), modes.file));
  if (files.nczvar) CODECFS_TRY(fresh->write(".nczvar", bytes_of(*files.nczvar), modes.file));
  const auto put = [&] { return takes_place ? fresh->exchange(file_name) : fresh->place(file_name); };
  const auto undo_put = [&] { takes_place ? (void)fresh->exchange(file_name) : discard(group.key, file_name); };
  CODECFS_TRY(editor_.with_lists(nczarr->plan, {group.key}, put, undo_put));
  return made(group.key, file_name, EntryKind::variable);
}

Result<> MemberChanges::remove(ObjectId parent, std::string_view name) {
  std::unique_ptr<NewDirectory> removed;  // declared first: deletes the directory after the locks are released
  const auto places = store_.changing_places();
  const auto lock = store_.changing_keys();
  CODECFS_ASSIGN(const Object group, editor_.group_to_change(parent));
  CODECFS_ASSIGN(const Object member, editor_.member_to_change(group, name));
  if (member.kind == EntryKind::group) CODECFS_TRY(store_.hierarchy().check_empty(member.key));
  CODECFS_ASSIGN(const auto lists, nczarr_removal(store_.hierarchy(), group.key, name_of(member.key)));
  const auto take = [&]() -> Result<> {
    CODECFS_ASSIGN(removed, writer_.remove_directory(group.key, name_of(member.key)));
    return {};
  };
  CODECFS_TRY(editor_.with_lists(lists, {}, take, [] {}));
  shards_.forget(member.key);
  store_.removed(member.key);
  return {};
}

Result<> MemberChanges::rename(ObjectId from, std::string_view name, ObjectId to, std::string_view to_name) {
  const auto places = store_.changing_places();
  const auto lock = store_.changing_keys();
  CODECFS_ASSIGN(const Object source, editor_.group_to_change(from));
  CODECFS_ASSIGN(const Object target, editor_.group_to_change(to));
  CODECFS_ASSIGN(const Object member, editor_.member_to_change(source, name));
  if (source.key == target.key && name == to_name) return {};
  if (is_at_or_below(target.key, member.key)) return fail(EINVAL, "{}: cannot be moved into itself", member.key);
  CODECFS_ASSIGN(const std::string file_name, store_.hierarchy().free_name(target.key, to_name));
  CODECFS_TRY(shards_.write_shards());
  if (source.key != target.key) CODECFS_TRY(store_.hierarchy().check_no_links(member.key));
  const std::string key = join_key(target.key, file_name);
  CODECFS_ASSIGN(const auto lists, nczarr_move(store_.hierarchy(), member.key, member.kind, key));
  CODECFS_TRY(editor_.with_lists(
      lists, {source.key, target.key},
      [&] { return writer_.move(source.key, name_of(member.key), target.key, file_name); },
      [&] { (void)writer_.move(target.key, file_name, source.key, name_of(member.key)); }));
  store_.moved(member.key, key);
  return {};
}

/// Whether the name is that of an empty group, which a variable may replace. ENOTEMPTY.
Result<bool> MemberChanges::is_empty_group(const Object& parent, std::string_view name) {
  const auto entry = store_.find(parent, name);
  if (!entry && entry.error().code == ENOENT) return false;
  if (!entry) return std::unexpected(entry.error());
  if (entry->kind != EntryKind::group) return false;
  CODECFS_ASSIGN(const Object group, editor_.object_to_change(entry->object));
  CODECFS_TRY(store_.hierarchy().check_empty(group.key));
  return true;
}

Entry MemberChanges::made(const std::string& group, const std::string& name, EntryKind kind) {
  writer_.note_change(group);
  store_.removed(join_key(group, name));  // an object that another program has removed
  return store_.entry_of(group, name, kind);
}

}  // namespace codecfs::zarr
