//go:build unix

package settings

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// WhoReads says who else than its owner can read a file, nobody if it is empty. A folder on
// the way that lets others not through protects it. A group that we belong to, of a file
// that is not ours, is how we read it ourselves.
func WhoReads(name string) string {
	path, err := filepath.Abs(name)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return ""
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	others, group := info.Mode()&0o004 != 0, info.Mode()&0o040 != 0 && !forUs(info)
	for dir := filepath.Dir(path); others || group; dir = filepath.Dir(dir) {
		folder, err := os.Stat(dir)
		if err != nil {
			return ""
		}
		others = others && folder.Mode()&0o001 != 0
		group = group && folder.Mode()&0o011 != 0
		if dir == filepath.Dir(dir) {
			break
		}
	}
	switch {
	case others:
		return "everybody on this machine"
	case group:
		return "its group"
	}
	return ""
}

// forUs reports whether the group of a file may be how the server reads it: root looks at
// files for somebody else.
func forUs(info os.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() == 0 {
		return true
	}
	groups, _ := os.Getgroups()
	return int(owner.Uid) != os.Geteuid() && slices.Contains(append(groups, os.Getegid()), int(owner.Gid))
}
