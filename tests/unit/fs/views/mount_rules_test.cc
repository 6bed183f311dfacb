// Which pipelines the rules of the mount give.

#include "fs/views/mount_rules.h"

#include "backends/api/names.h"
#include "base/log.h"
#include "support/filesystem_testing.h"

namespace codecfs::fs {
namespace {

class MountRulesTest : public FilesystemTest {
 protected:
  void add_rule(std::string_view rule) { ASSERT_TRUE(options_.rules.add(rule)); }
  std::string spec(std::string_view path) {
    const Node& variable = node(path);
    return fs().rules().spec_for(variable, source_->described(std::string(path))).value_or("no rule");
  }
};

TEST_F(MountRulesTest, ARuleNamesAVariableByItsPath) {
  add_rule("/g/deep,1,5");
  EXPECT_EQ(spec("/g/deep"), "1,5");
  EXPECT_EQ(spec("/v"), "no rule");
}

TEST_F(MountRulesTest, ARuleForAllLeavesScalarsAlone) {
  add_rule("*,1,5");
  source_->add_variable("/scalar", text_variable({}, {}));
  EXPECT_EQ(spec("/v"), "1,5");
  EXPECT_EQ(spec("/g/deep"), "1,5");
  EXPECT_EQ(spec("/scalar"), "no rule");
}

TEST_F(MountRulesTest, NoFiltersAreARuleToo) {
  add_rule("none");
  EXPECT_EQ(spec("/g/deep"), "none");
}

TEST_F(MountRulesTest, PipelinesAreInNetcdfsOrder) {
  add_rule("v,1,5|2,1|3");
  EXPECT_EQ(spec("/v"), "3|2,1|1,5");
}

TEST_F(MountRulesTest, EscapedNamesAreThoseOfTheSource) {
  add_rule("/.zarray,1,5");
  const std::string path = "/" + escape_name(".zarray");
  source_->add_variable(path, text_variable({8}, {4}));
  EXPECT_NE(path, "/.zarray");
  EXPECT_EQ(spec(path), "1,5");
}

TEST_F(MountRulesTest, NamesThatAreNoVariableAreReported) {
  for (const char* rule : {"v,1,5", "/g/none,1,5", "/g,1,5", "/link,1,5", "/v/0,1,5"}) add_rule(rule);
  EXPECT_TRUE(fs().rules().check());
  const std::string log = log::recent();
  EXPECT_EQ(log.find("filter rule for /v:"), std::string::npos);
  EXPECT_NE(log.find("filter rule for /g/none: there is no such variable"), std::string::npos);
  EXPECT_NE(log.find("filter rule for /g: this is a group"), std::string::npos);
  EXPECT_NE(log.find("filter rule for /link: this is a link to g/deep"), std::string::npos);
  EXPECT_NE(log.find("filter rule for /v/0: there is no such variable"), std::string::npos);
}

}  // namespace
}  // namespace codecfs::fs
