package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"
)

// versionVerb says which program this is.
type versionVerb struct {
	JSON bool `name:"json" help:"Print it as JSON."`
}

// release is what the program knows about itself. Members that the build did not record are empty.
type release struct {
	Version   string `json:"version"`             // of the module: a tag, or one made of the commit and its time
	Commit    string `json:"commit,omitempty"`    // the whole hash
	Committed string `json:"committed,omitempty"` // when, RFC 3339 in UTC
	Modified  bool   `json:"modified,omitempty"`  // the files were not those of the commit
	Build     string `json:"build,omitempty"`     // SHA-256 of the program's file, in hex: sha256sum shows the same
	Go        string `json:"go"`                  // the release of Go that built it
	Platform  string `json:"platform"`            // such as linux/amd64
}

// Run prints the version that the build recorded.
func (v *versionVerb) Run(p *program, k *kong.Context) error {
	if err := p.loadEnvironment(k); err != nil {
		return err
	}
	r := thisRelease()
	r.Build = thisBuild()
	if v.JSON {
		out := json.NewEncoder(p.stdout)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	_, err := fmt.Fprintln(p.stdout, r)
	return err
}

// String returns one line. Hashes are cut to twelve digits.
func (r release) String() string {
	parts := []string{"authz", r.Version, r.Go, r.Platform}
	if r.Commit != "" {
		commit := "commit " + short(r.Commit)
		if r.Modified {
			commit += " with changes"
		}
		parts = append(parts, commit, r.Committed)
	}
	if r.Build != "" {
		parts = append(parts, "build "+short(r.Build))
	}
	return strings.Join(parts, " ")
}

func short(hash string) string { return hash[:min(len(hash), 12)] }

// thisRelease returns what the build recorded.
func thisRelease() release {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	}
	return releaseOf(info)
}

// releaseOf reads what a build recorded.
func releaseOf(info *debug.BuildInfo) release {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	r := release{
		Version: info.Main.Version, Commit: settings["vcs.revision"], Committed: settings["vcs.time"],
		Modified: settings["vcs.modified"] == "true", Go: info.GoVersion,
		Platform: cmp.Or(settings["GOOS"], runtime.GOOS) + "/" + cmp.Or(settings["GOARCH"], runtime.GOARCH),
	}
	if r.Version == "" || r.Version == "(devel)" {
		r.Version = cmp.Or(r.Commit, "devel")
	}
	return r
}

// thisBuild returns the hash of the running program's file, or nothing if it cannot be read.
func thisBuild() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return ""
	}
	return hex.EncodeToString(hash.Sum(nil))
}
