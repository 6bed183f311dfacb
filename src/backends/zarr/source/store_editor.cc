#include "backends/zarr/source/store_editor.h"

#include "backends/zarr/metadata/metadata_write.h"
#include "backends/zarr/metadata/zarr3_write.h"
#include "backends/zarr/source/access.h"

namespace codecfs::zarr {

Result<> StoreEditor::begin() {
  CODECFS_TRY(store_.writable());
  CODECFS_TRY(writer_.begin());
  if (store_.root().kind != EntryKind::variable || searched_beside_.exchange(true)) return {};
  writer_.remove_leftovers_beside();
  return {};
}

Result<> StoreEditor::check_change(const std::string& key) {
  CODECFS_TRY(begin());
  if (store_.files().passes_link(key))
    return fail(EOPNOTSUPP, "{}: is reached through a symbolic link; change it under its own name", group_called(key));
  return {};
}

Result<Object> StoreEditor::object_to_change(ObjectId id) {
  CODECFS_ASSIGN(Object object, store_.object(id));
  CODECFS_TRY(check_change(object.key));
  if (object.kind == EntryKind::group) CODECFS_TRY(make_explicit(object.key));
  return object;
}

Result<> StoreEditor::make_explicit(std::string key) {
  const Hierarchy& hierarchy = store_.hierarchy();
  for (; !key.empty(); key = holder_of(key)) {
    CODECFS_ASSIGN(const auto kind, hierarchy.explicit_kind_of(key));
    if (kind) return {};
    const std::string text = hierarchy.format() == ZarrFormat::v3 ? print_zarr3_group() : print_group();
    CODECFS_ASSIGN(const Modes modes, modes_for_members(hierarchy, key));
    CODECFS_TRY(writer_.write(key, hierarchy.file_of(EntryKind::group), bytes_of(text), modes.file));
    store_.changed({key, EntryKind::group});
  }
  return {};
}

Result<Object> StoreEditor::variable_to_change(ObjectId id) {
  CODECFS_ASSIGN(Object object, object_to_change(id));
  if (object.kind != EntryKind::variable) return fail(ENOENT, "{}: is not an array", group_called(object.key));
  return object;
}

Result<Object> StoreEditor::group_to_change(ObjectId id) {
  CODECFS_ASSIGN(Object group, store_.group(id));
  CODECFS_TRY(check_change(group.key));
  CODECFS_TRY(make_explicit(group.key));
  return group;
}

Result<Object> StoreEditor::member_to_change(const Object& group, std::string_view name) {
  CODECFS_ASSIGN(const Entry entry, store_.find(group, name));
  return object_to_change(entry.object);
}

Result<> StoreEditor::replace(const Object& object, const char* file, const std::string& text) {
  CODECFS_ASSIGN(auto status, store_.files().stat(join_key(object.key, file)));
  if (!status) {
    CODECFS_ASSIGN(status, store_.files().stat(join_key(object.key, store_.hierarchy().file_of(object.kind))));
  }
  CODECFS_TRY(writer_.write(object.key, file, bytes_of(text), status ? status->st_mode & 0666 : 0644));
  store_.changed(object);
  return {};
}

Result<> StoreEditor::with_lists(const NczarrPlan& plan, std::initializer_list<std::string> groups,
                                 const std::function<Result<>()>& change, const std::function<void()>& undo) {
  CODECFS_TRY(write_edits(plan.before, true));
  Result<> done = change();
  if (done && !plan.after.empty()) {
    for (const std::string& group : groups)
      if (done) done = writer_.order(group);
    if (done) done = write_edits(plan.after, false);
    if (!done) undo();
  }
  if (!done) undo_edits(plan.before);
  if (!plan.before.empty() || !plan.after.empty()) lists_changed_ = true;
  return done;
}

Result<> StoreEditor::write_edits(std::span<const NczarrEdit> edits, bool are_durable) {
  for (size_t i = 0; i < edits.size(); ++i) {
    Result<> written = replace({edits[i].key, edits[i].kind}, edits[i].file, edits[i].text);
    if (written && are_durable) written = writer_.order(edits[i].key);
    if (written) continue;
    // Where other programs write too, the file may be theirs now.
    undo_edits(edits.first(writer_.shared() != nullptr ? i : i + 1));
    return written;
  }
  return {};
}

void StoreEditor::undo_edits(std::span<const NczarrEdit> edits) {
  for (size_t i = edits.size(); i-- > 0;)
    if (edits[i].old_text) (void)replace({edits[i].key, edits[i].kind}, edits[i].file, *edits[i].old_text);
}

}  // namespace codecfs::zarr
