package main

import (
	"database/sql"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/bglm/bglm/cmd/internal/cli"
	"github.com/bglm/bglm/udf"
)

// built is the commit and its date, "HASH,TIME" or "HASH,TIME,changed", which make release links
// in: Go finds none in a linked worktree of git.
var built string

type versionCommand struct{}

// Help is the text below the usage line.
func (*versionCommand) Help() string {
	return `Example:

  bglm version`
}

// Run prints one line for each part, and one for the commit.
func (*versionCommand) Run(e *cli.Env) error {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		return err
	}
	defer db.Close()
	var duck string
	if err := db.QueryRowContext(e.Ctx, "SELECT version()").Scan(&duck); err != nil {
		return err
	}
	info, _ := debug.ReadBuildInfo()
	_, err = fmt.Fprintf(e.Stdout, "bglm   %s\n%sGo     %s %s/%s\nDuckDB %s\n", udf.Version, commit(info, built), runtime.Version(), runtime.GOOS, runtime.GOARCH, duck)
	return err
}

// commit is a line with the commit that the program was built from and its date, or the module's
// version if Go fetched it; "" if neither is known. Go's own information takes precedence over what
// was linked in.
func commit(info *debug.BuildInfo, built string) string {
	if info == nil {
		info = &debug.BuildInfo{}
	}
	set := map[string]string{}
	if linked := strings.Split(built, ","); len(linked) >= 2 {
		set["vcs.revision"], set["vcs.time"] = linked[0], linked[1]
		set["vcs.modified"] = strconv.FormatBool(len(linked) > 2)
	}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	if hash := set["vcs.revision"]; hash != "" {
		changed := ""
		if set["vcs.modified"] == "true" {
			changed = ", with changes"
		}
		return fmt.Sprintf("commit %s of %s%s\n", hash, set["vcs.time"], changed)
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return fmt.Sprintf("module %s\n", v)
	}
	return ""
}
