// Which pipelines variables get: from specs, codecs, special attributes, rules of the mount and groups.

#include "fs/views/filter_control.h"

#include <new>
#include <stdexcept>

#include "base/fail_points.h"
#include "support/failing_memory.h"
#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

using Ids = std::vector<uint32_t>;

class FilterControlTest : public FilesystemTest {
 protected:
  FilterControl& filters() {
    if (parts_ == nullptr) parts_ = std::make_unique<Components>(mount());
    return parts_->filters;
  }
  Ids stored(const std::string& path) { return ids_of(source_->described(path).filters); }
  static Ids ids_of(const std::vector<FilterStage>& chain) {
    Ids ids;
    for (const FilterStage& stage : chain) ids.push_back(stage.id);
    return ids;
  }
  void add_rule(std::string_view rule) { ASSERT_TRUE(options_.rules.add(rule)); }

 private:
  std::unique_ptr<Components> parts_;
};

TEST_F(FilterControlTest, AChangeThatBeganBeforeAMoveIsShownAfterIt) {
  const Ino deep = ino("/g/deep");
  const Ino encoded = ino("/g/deep/.zarray", View::encoded);
  const Node& before = node("/g/deep");
  ASSERT_TRUE(fs().tree().rename(ino("/g"), "deep", root(), "moved", true, {}));
  const auto filter = [&] {
    const Result<XattrView> view = fs().xattrs().all(deep);
    const auto found = std::ranges::find(*view->stored, "user._Filter", &Xattr::name);
    return found == view->stored->end() ? "none" : found->value;
  };
  EXPECT_EQ(filter(), "1,1");
  kernel_.take();
  ASSERT_TRUE(filters().set_spec(before, "1,2", {}));
  EXPECT_EQ(filter(), "1,2");
  EXPECT_TRUE(kernel_.has(Kernel::content(encoded))) << "the other views are notified";
}

TEST_F(FilterControlTest, ASpecIsArrangedAsNetcdfDoes) {
  ASSERT_TRUE(filters().set_spec(node("/v"), " 1,2 | 2,1 | 3\n", {}));
  EXPECT_EQ(stored("/v"), (Ids{3, 2, 1}));
  EXPECT_EQ(source_->chunk("/v", 0), "abcd");
  EXPECT_EQ(source_->commits, 1) << "the new pipeline is durable";
  ASSERT_TRUE(filters().set_spec(node("/v"), "none", {}));
  EXPECT_EQ(stored("/v"), Ids());
}

TEST_F(FilterControlTest, InvalidSpecsChangeNothing) {
  EXPECT_EQ(error_of(filters().set_spec(node("/v"), "", {})), EINVAL) << "an empty file may be an accident";
  EXPECT_EQ(error_of(filters().set_spec(node("/v"), "1,", {})), EINVAL);
  EXPECT_EQ(error_of(filters().set_spec(node("/v"), "31999", {})), ENOENT);
  EXPECT_EQ(error_of(filters().set_codecs(node("/v"), R"({"id": "zlib"})", {})), EINVAL);
  EXPECT_EQ(error_of(filters().set_codecs(node("/v"), "[", {})), EINVAL);
  EXPECT_EQ(stored("/v"), Ids());
  EXPECT_EQ(source_->commits, 0);
}

TEST_F(FilterControlTest, CodecsAreTakenAsTheyAre) {
  ASSERT_TRUE(filters().set_codecs(node("/v"), R"([{"id": "zlib", "level": 3}])", {}));
  EXPECT_EQ(stored("/v"), (Ids{1}));
  ASSERT_TRUE(filters().set_codecs(node("/v"), "[]", {}));
  EXPECT_EQ(stored("/v"), Ids());
}

TEST_F(FilterControlTest, CodecsMayHaveTheFormOfZarr3) {
  ASSERT_TRUE(
      filters().set_codecs(node("/v"), R"([{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 3}}])", {}));
  EXPECT_EQ(stored("/v"), (Ids{1})) << "as HDF5 stores it";
  EXPECT_EQ(*mount().dataset.variable(node("/v").object).value()->codecs3(),
            R"([{"name": "bytes"}, {"name": "numcodecs.zlib", "configuration": {"level": 3}}])"
            "\n");
  ASSERT_TRUE(filters().set_codecs(node("/v"), R"(["bytes"])", {}));
  EXPECT_EQ(stored("/v"), Ids());
  for (const char* text : {R"([{"name": "sharding_indexed", "configuration": {}}])", R"(["vlen-utf8"])",
                           R"([{"name": 5}])", R"([{"name": "transpose", "configuration": {"order": [1]}}, "bytes"])"})
    EXPECT_EQ(error_of(filters().set_codecs(node("/v"), text, {})), EINVAL) << text;
  EXPECT_EQ(error_of(filters().set_codecs(node("/v"), R"(["bytes", {"name": "nobody_knows"}])", {})), ENOENT);
  source_->add_group("/g/n");
  ASSERT_TRUE(
      filters().set_default_chain(node("/g"), "_Codecs", R"([{"name": "gzip", "configuration": {"level": 1}}])"));
  EXPECT_EQ(ids_of(filters().chain_for_new(node("/g/n"), text_variable({8}, {4})).value()), (Ids{1}));
  ASSERT_TRUE(
      write_file("/g/n/_Codecs", R"(["bytes", {"name": "numcodecs.shuffle", "configuration": {"elementsize": 1}}])"));
  EXPECT_EQ(ids_of(filters().chain_for_new(node("/g/n"), text_variable({8}, {4})).value()), (Ids{2}));
}

TEST_F(FilterControlTest, ACancelledReencodingChangesNothing) {
  EXPECT_EQ(error_of(filters().set_spec(node("/v"), "1,2", [] { return true; })), EINTR);
  EXPECT_EQ(stored("/v"), Ids());
  EXPECT_EQ(source_->chunk("/v", 0), "abcd");
}

TEST_F(FilterControlTest, UnstoredChunksAreStoredFirst) {
  ASSERT_TRUE(write_file("/v/1", "wxyz"));
  ASSERT_TRUE(filters().set_spec(node("/v"), "1,2", {}));
  EXPECT_EQ(source_->chunk("/v", 1), "wxyz");
  EXPECT_EQ(read("/v/1"), "wxyz");
}

TEST_F(FilterControlTest, TheSamePipelineIsLeftAlone) {
  ASSERT_TRUE(filters().set_spec(node("/g/deep"), "1,1", {}));
  EXPECT_EQ(source_->commits, 0);
  EXPECT_EQ(mount().stats.variables_recoded, 0);
}

TEST_F(FilterControlTest, SpecialAttributesChangeOneStage) {
  const Node& deep = node("/g/deep");
  ASSERT_TRUE(filters().set_special(deep, "_Shuffle", "true", {}));
  ASSERT_TRUE(filters().set_special(deep, "_DeflateLevel", "7\n", {}));
  EXPECT_EQ(stored("/g/deep"), (Ids{2, 1}));
  EXPECT_EQ(source_->described("/g/deep").filters[1].parameters, (Ids{7}));
  ASSERT_TRUE(filters().set_special(deep, "_Fletcher32", "1", {}));
  EXPECT_EQ(stored("/g/deep"), (Ids{3, 2, 1}));
  ASSERT_TRUE(filters().remove_special(deep, "_Shuffle", {}));
  ASSERT_TRUE(filters().remove_special(deep, "_DeflateLevel", {}));
  EXPECT_EQ(stored("/g/deep"), (Ids{3}));
  EXPECT_EQ(error_of(filters().set_special(deep, "_DeflateLevel", "10", {})), EINVAL);
  EXPECT_EQ(error_of(filters().set_special(deep, "_Shuffle", "yes", {})), EINVAL);
  EXPECT_EQ(error_of(filters().set_special(deep, "_Storage", "contiguous", {})), EPERM);
  EXPECT_EQ(error_of(filters().remove_special(deep, "_Filter", {})), EPERM);
  EXPECT_EQ(source_->chunk("/g/deep", 0), "deep");
}

TEST_F(FilterControlTest, ARuleIsAppliedBeforeTheFirstChange) {
  add_rule("v,1,4");
  EXPECT_EQ(stored("/v"), Ids());
  ASSERT_TRUE(filters().apply_rules(chunk_place("/v", 0), {}));
  EXPECT_EQ(stored("/v"), (Ids{1}));
  ASSERT_TRUE(filters().set_spec(node("/v"), "none", {}));
  ASSERT_TRUE(filters().apply_rules(chunk_place("/v", 0), {}));
  EXPECT_EQ(stored("/v"), Ids()) << "the user has decided otherwise since";
  ASSERT_TRUE(filters().apply_rules(chunk_place("/g/deep", 0), {}));
  EXPECT_EQ(stored("/g/deep"), (Ids{1})) << "no rule names it";
}

TEST_F(FilterControlTest, ACancelledRuleIsTriedAgain) {
  add_rule("v,1,4");
  EXPECT_EQ(error_of(filters().apply_rules(chunk_place("/v", 0), [] { return true; })), EINTR);
  ASSERT_TRUE(filters().apply_rules(chunk_place("/v", 0), {}));
  EXPECT_EQ(stored("/v"), (Ids{1}));
}

TEST_F(FilterControlTest, ANewVariableGetsTheNearestPipeline) {
  const Variable variable = text_variable({8}, {4});
  source_->add_group("/g/n");
  const auto chain = [&] { return ids_of(filters().chain_for_new(node("/g/n"), variable).value()); };
  EXPECT_EQ(chain(), Ids());
  ASSERT_TRUE(filters().set_default_chain(node(""), "_Filter", "3"));
  EXPECT_EQ(chain(), (Ids{3}));
  ASSERT_TRUE(filters().set_default_chain(node("/g"), "_Codecs", R"([{"id": "zlib", "level": 1}])"));
  EXPECT_EQ(chain(), (Ids{1}));
  ASSERT_TRUE(filters().set_default_chain(node("/g"), "_Filter", "none"));
  EXPECT_EQ(chain(), Ids()) << "none is a decision";
  filters().remove_default_chain(node("/g"));
  EXPECT_EQ(chain(), (Ids{3}));
  EXPECT_EQ(error_of(filters().set_default_chain(node("/g"), "_Filter", "31999")), ENOENT);
  EXPECT_EQ(ids_of(filters().chain_for_new(node("/g/n"), text_variable({}, {})).value()), Ids()) << "a scalar";
}

TEST_F(FilterControlTest, ARuleWinsOverTheFileAndTheGroup) {
  add_rule("/g/n,2,1");
  source_->add_group("/g/n");
  const Variable variable = text_variable({8}, {4});
  ASSERT_TRUE(filters().set_default_chain(node(""), "_Filter", "3"));
  ASSERT_TRUE(write_file("/g/n/_Filter", "1,5"));
  EXPECT_EQ(ids_of(filters().chain_for_new(node("/g/n"), variable).value()), (Ids{2}));
}

TEST_F(FilterControlTest, AFileThatCameBeforeTheZarrayWinsOverTheGroup) {
  source_->add_group("/g/n");
  ASSERT_TRUE(filters().set_default_chain(node(""), "_Filter", "3"));
  ASSERT_TRUE(write_file("/g/n/_Filter", "1,5"));
  EXPECT_EQ(ids_of(filters().chain_for_new(node("/g/n"), text_variable({8}, {4})).value()), (Ids{1}));
}

TEST_F(FilterControlTest, CodecsWithoutAnHdf5FilterAreRefused) {
  Variable wanted = text_variable({8}, {4});
  wanted.filters = {{.id = 0, .parameters = {}, .codec = *parse_json(R"({"id": "lzma"})"), .name = {}}};
  std::optional<DirectoryState::WrittenCodecs> written;
  EXPECT_NE(error_of(filters().chain_for_codecs(node("/v", View::encoded), wanted, written)), 0);
  wanted.filters = {{.id = 1, .parameters = {1}, .codec = *parse_json(R"({"id": "zlib", "level": 1})"), .name = {}}};
  ASSERT_TRUE(filters().apply_codecs(ino("/v", View::encoded), wanted, {}));
  EXPECT_EQ(stored("/v"), (Ids{1}));
}

TEST_F(FilterControlTest, AReencodingThatThrowsHasEnded) {
  for (const int which : {0, 1}) {
    source_->before_set_filters = [which] {
      if (which == 0) throw std::bad_alloc();
      throw std::runtime_error("broken");
    };
    EXPECT_ANY_THROW((void)filters().set_spec(node("/v"), "1,2", {}));
    source_->before_set_filters = {};
    EXPECT_FALSE(mount().recodings.of(source_->object("/v")));
    EXPECT_EQ(mount().recodings.of_all().total, 0);
    EXPECT_TRUE(mount().recodings.check_idle(source_->object("/v"), "/v"));
    ASSERT_TRUE(write_file("/v/0", "abcd")) << "which waits while it is re-encoded";
    ASSERT_TRUE(mount().chunks.write_back.pause(source_->object("/v")));
  }
  ASSERT_TRUE(filters().set_spec(node("/v"), "1,2", {}));
  EXPECT_EQ(stored("/v"), Ids{1});
}

TEST_F(FilterControlTest, AReencodingThatRunsOutOfMemoryHasEnded) {
  constexpr int kMaxPassed = 100;
  int passed = 0;
  for (bool has_failed = true; has_failed && passed < kMaxPassed; ++passed) {
    ASSERT_TRUE(write_file("/v/0", "abcd"));
    FailPoints::arm(FailPoint::memory, passed, 1);
    const Result<> done =
        without_memory_errors([&] { return filters().set_spec(node("/v"), passed % 2 == 0 ? "1,2" : "1,3", {}); });
    has_failed = !done;
    FailPoints::disarm();
    EXPECT_TRUE(done || done.error().code == ENOMEM) << passed;
    EXPECT_EQ(mount().recodings.of_all().total, 0);
    EXPECT_TRUE(mount().recodings.check_idle(source_->object("/v"), "/v"));
    ASSERT_TRUE(mount().chunks.write_back.pause(source_->object("/v")));
    EXPECT_EQ(source_->chunk("/v", 0), "abcd");
  }
  EXPECT_GT(passed, 3) << "it meets several points";
  EXPECT_LT(passed, kMaxPassed);
}

}  // namespace
}  // namespace codecfs::fs
