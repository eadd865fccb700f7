package crash_test

import (
	"context"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// sector is what a disk writes as a whole or not at all, in bytes.
const sector = 512

// content is a file: what programs see, and what is on the disk.
type content struct {
	now, safe []byte
	dirty     map[int64]bool // sectors that were written since the last fsync
}

// disk is a folder that knows what a crash would leave: only what was fsynced is certain, names in
// the folder included. It can crash or fail at one of its operations.
type disk struct {
	mu       sync.Mutex
	files    map[string]*content
	safe     map[string]*content // the names that are on the disk
	number   int                 // of operations that change something
	crashAt  int                 // the operation in which the machine loses power; none if zero
	failAt   int                 // the fsync after which nothing of it is on the disk; none if zero
	fsyncs   int
	image    map[string][]byte // what the crash left
	onlySafe bool              // a crash leaves nothing but what was fsynced
}

func newDisk(image map[string][]byte) *disk {
	d := &disk{files: map[string]*content{}}
	for name, data := range image {
		d.files[name] = &content{now: slices.Clone(data), safe: slices.Clone(data), dirty: map[int64]bool{}}
	}
	d.safe = maps.Clone(d.files)
	return d
}

// begin begins an operation that changes something, and reports whether there still is power.
func (d *disk) begin() bool {
	if d.image != nil {
		return false
	}
	if d.number++; d.number == d.crashAt {
		d.crash()
		return false
	}
	return true
}

// crash takes the image of what is left.
func (d *disk) crash() {
	d.image = map[string][]byte{}
	names := d.safe
	if !d.onlySafe && mathrand.IntN(2) == 0 {
		names = d.files
	}
	for name, c := range names {
		d.image[name] = c.left(d.onlySafe)
	}
}

// left returns what a crash leaves: what was fsynced, and any of the other sectors, the last of
// them torn.
func (c *content) left(onlySafe bool) []byte {
	data := slices.Clone(c.safe)
	if onlySafe {
		return data
	}
	if mathrand.IntN(2) == 0 && len(c.now) > len(data) {
		data = append(data, make([]byte, len(c.now)-len(data))...)
	}
	odds := mathrand.IntN(5)
	for at := range c.dirty {
		from, to := at*sector, min((at+1)*sector, int64(len(c.now)), int64(len(data)))
		if mathrand.IntN(20) == 0 {
			to = from + mathrand.Int64N(sector)
		}
		if to = min(to, int64(len(data)), int64(len(c.now))); from < to && mathrand.IntN(4) < odds {
			copy(data[from:to], c.now[from:to])
		}
	}
	return data
}

func (d *disk) sync(c *content) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if alive := d.image == nil; !d.begin() {
		if alive { // programs get time to act on what is not on the disk
			d.mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			d.mu.Lock()
		}
		return syscall.EIO
	}
	if d.fsyncs++; d.fsyncs == d.failAt {
		// As on Linux: the next fsync does not try again.
		c.safe = c.left(false)
		clear(c.dirty)
		return syscall.EIO
	}
	if len(c.now) != len(c.safe) {
		c.safe = append(c.safe, make([]byte, max(0, len(c.now)-len(c.safe)))...)[:len(c.now)]
	}
	for at := range c.dirty {
		from, to := at*sector, min((at+1)*sector, int64(len(c.now)))
		if from < to {
			copy(c.safe[from:to], c.now[from:to])
		}
	}
	clear(c.dirty)
	return 0
}

// folder is the only folder of a disk.
type folder struct {
	fs.Inode
	disk *disk
}

var root = fs.StableAttr{Mode: syscall.S_IFREG}

func (f *folder) child(ctx context.Context, name string, c *content, out *fuse.EntryOut) *fs.Inode {
	out.Mode, out.Size, out.Nlink = syscall.S_IFREG|0o600, uint64(len(c.now)), 1
	if there := f.GetChild(name); there != nil {
		return there
	}
	return f.NewInode(ctx, &node{disk: f.disk, content: c}, root)
}

func (f *folder) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode = syscall.S_IFDIR | 0o700
	return 0
}

func (f *folder) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	c, there := f.disk.files[name]
	if !there {
		return nil, syscall.ENOENT
	}
	return f.child(ctx, name, c, out), 0
}

func (f *folder) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if !f.disk.begin() {
		return nil, nil, 0, syscall.EIO
	}
	c := &content{dirty: map[int64]bool{}}
	f.disk.files[name] = c
	return f.child(ctx, name, c, out), nil, 0, 0
}

func (f *folder) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if !f.disk.begin() {
		return nil, syscall.EIO
	}
	if _, there := f.disk.files[name]; there {
		return nil, syscall.EEXIST
	}
	c := target.(*node).content
	f.disk.files[name] = c
	out.Mode, out.Size, out.Nlink = syscall.S_IFREG|0o600, uint64(len(c.now)), 2
	return target.EmbeddedInode(), 0
}

func (f *folder) Unlink(_ context.Context, name string) syscall.Errno {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if !f.disk.begin() {
		return syscall.EIO
	}
	delete(f.disk.files, name)
	return 0
}

func (f *folder) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if !f.disk.begin() {
		return syscall.EIO
	}
	f.disk.safe = maps.Clone(f.disk.files)
	return 0
}

func (*folder) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno { return free(out) }

// Statfs implements [fs.NodeStatfser].
func (*node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno { return free(out) }

// free says that the disk has 4 GiB, all free.
func free(out *fuse.StatfsOut) syscall.Errno {
	out.Bsize, out.Frsize, out.Blocks, out.Bfree, out.Bavail = 4096, 4096, 1<<20, 1<<20, 1<<20
	return 0
}

// node is a file of the folder.
type node struct {
	fs.Inode
	disk    *disk
	content *content
}

func (f *node) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) { return nil, 0, 0 }

func (f *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	out.Mode, out.Size, out.Nlink = syscall.S_IFREG|0o600, uint64(len(f.content.now)), 1
	return 0
}

func (f *node) Setattr(ctx context.Context, handle fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		f.disk.mu.Lock()
		if !f.disk.begin() {
			f.disk.mu.Unlock()
			return syscall.EIO
		}
		f.content.resize(int(size))
		f.disk.mu.Unlock()
	}
	return f.Getattr(ctx, handle, out)
}

func (c *content) resize(size int) {
	c.now = append(c.now, make([]byte, max(0, size-len(c.now)))...)[:size]
}

func (f *node) Read(_ context.Context, _ fs.FileHandle, into []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if at >= int64(len(f.content.now)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(into[:copy(into, f.content.now[at:])]), 0
}

func (f *node) Write(_ context.Context, _ fs.FileHandle, data []byte, at int64) (uint32, syscall.Errno) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.image != nil {
		return 0, syscall.EIO
	}
	if end := int(at) + len(data); end > len(f.content.now) {
		f.content.resize(end)
	}
	copy(f.content.now[at:], data)
	for s := at / sector; s*sector < at+int64(len(data)); s++ {
		f.content.dirty[s] = true
	}
	if !f.disk.begin() {
		return 0, syscall.EIO // the crash came in the middle of this write
	}
	return uint32(len(data)), 0
}

func (f *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return f.disk.sync(f.content)
}

func (f *node) Flush(context.Context, fs.FileHandle) syscall.Errno { return 0 }
