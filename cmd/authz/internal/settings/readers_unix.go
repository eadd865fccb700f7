//go:build unix

package settings

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// OtherReaders names the users beside its owner that can read a file: "everybody on this
// machine", "its group", or "" for none and for a file that cannot be examined. A directory on
// the path that other users cannot enter protects the file. The group does not count if this
// process reads a file of another owner through it.
func OtherReaders(name string) string {
	path, info := regularFile(name)
	if info == nil {
		return ""
	}
	others, group := info.Mode()&0o004 != 0, info.Mode()&0o040 != 0 && !readByGroup(info)
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

// regularFile returns the absolute path of a file behind all links, and its info; nil if it is
// no regular file or cannot be examined.
func regularFile(name string) (string, os.FileInfo) {
	path, err := filepath.Abs(name)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "", nil
	}
	return path, info
}

// readByGroup reports whether this process may depend on the group of a file to read it: it has
// another owner, and this process is in its group. For root it returns true, because root
// examines files on behalf of another user.
func readByGroup(info os.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() == 0 {
		return true
	}
	groups, _ := os.Getgroups()
	return int(owner.Uid) != os.Geteuid() && slices.Contains(append(groups, os.Getegid()), int(owner.Gid))
}
