// Package job plans the background jobs of one virtual cluster, hands them to agents and takes what becomes of them. It
// works beside the owner, for the length of a tenure; nothing of it outlives that but metrics.
//
// # Rounds
//
// A round looks at a frozen state, so commits go on, and proposes commands; a planner whose replica is not the owner any
// more does no harm, since its commands are refused (I9). There are four kinds of work:
//
//	level 1   the oldest bundles that agents wrote, in the order of their commits, all partitions: one Compact job for
//	          FirstLevel.Bundles of them, or FirstLevel.Bytes, or for two once the oldest is FirstLevel.Age old
//	level 2   a range of partitions in the order of their names with all that level 1 left there: one Compact job, when a
//	          partition of the range has SecondLevel.Bytes on average, or SecondLevel.Extents, or two and the oldest is
//	          SecondLevel.Age old; of at most SecondLevel.JobBytes, so that its GETs are large
//	cleaning  one partition of a compacted topic, by the policy of package cleaning
//	reclaim   half-dead bundles that neither level will rewrite, all their partitions: one Compact job of level 2 for those with
//	          the most dead bytes, of at most SecondLevel.JobBytes of live bytes and 256 bundles
//
// Many partitions with few bytes each would come near Config.MaxExtents before a range is due. From half of that bound on, a
// range is due with four extents of a partition on average, unless most extents are final. Ranges with the most extents of a
// partition come first. If a range lies in more bundles than a job takes, the job takes the oldest bundles.
//
// The next free runner goes to the kind with the fewest open jobs, in turn among equals: no backlog starves the others. While the second
// level starts early because of Config.MaxExtents, reclaiming gets the runners that no other kind takes.
// What an open job covers is planned by nobody else, and what its bundles hold is left alone until it has ended.
//
// # What is final
//
// An extent is final, and no level compacts it again, when it lies in a bundle of level 2, or when it is long
// (SecondLevel.FinalBytes) and lies in a bundle of level 1 three quarters of which are such extents. That follows from
// lengths and levels in the state, so there is no mark. The second condition is for the storage: extents that stay where
// they are keep their whole object. A round walks from where everything below is final, which is known per partition
// after a first walk over everything; so it costs the partitions and the extents that are not final.
//
// Memory of a round: 2*roundBundles candidates, about 100 bytes for each bundle of level 1, and plans of less than
// 2*roundExtents + 3*jobExtents extents, 91 MiB, if there is that much to do. Eight bytes for each partition stay between
// rounds, and 32 for each of at most 10*roundBundles bundles that reclaiming has planned for.
//
// # Half-dead bundles
//
// An object stays whole until its last extent goes. Retention, deletion and cleaning take some partitions out of a bundle and
// leave others. Where at most half of an object is live, a job moves the live extents, and the object goes. So bundles that neither
// level will rewrite take at most about twice their live bytes. Each byte that is written frees at least one: reclaiming writes
// no more than retention, deletion and other jobs take out of bundles.
//
// Candidates of level 1 are bundles judged to stay, and bundles older than twice SecondLevel.Age. The latter may hold single extents of
// idle partitions. A candidate has at least Settings.DeadBytes of dead bytes. Storing 16 MiB for a day costs as much as the requests that move
// the rest: two PUTs, and one GET for every 4 MiB that a runner skips. It also has at least DeadBytes/16384, 1 KiB, of them for each live
// extent, since the log takes about 20 bytes of each.
//
// Bundles do not list their partitions, so a walk over all extents finds them, 50 ns each. It is made if there are candidates and a
// runner is free, at most once a minute, and takes at most 1/200 of a core. One walk plans for as many jobs as runners are free, of
// roundBundles bundles and jobExtents extents in all. Those it has planned for are left out of walks for 10 minutes.
//
// A plan takes extents as they lie, in runs: what is between two extents stays between them, and the new extents are final.
// Partitions that are being cleaned are left out, since the cleaning moves them. A bundle with extents of a deleted topic waits
// until the topic can no longer be undeleted. Until then its object would stay. In the metadata such a job looks like one of the second
// level. So the next owner counts an open one as second level.
//
// # Leases
//
// A job's id is its fencing token: once the state has no such job, whatever comes in its name has no effect. A job is
// aborted when its runner was silent for Settings.Lease, when the runner speaks of it for stallLease without progress, when
// the runner's session was closed (the state machine does that), or when the runner gives it up. Only its runner can complete
// or abort a job. A new owner finds open jobs in the state and gives each a full lease: runners
// that come back go on.
//
// # Setbacks
//
// What a failed job was to read waits, longer each time, and comes again in ever smaller jobs, until what makes them fail
// is alone. The runner gets no jobs of the kind for a while. Partitions that cannot be cleaned come behind all others.
//
// A runner may name live inputs that it could not read. One runner alone is not believed, since its own way to the store may be broken: it
// pauses as after any failure, and the next job with that bundle goes to another runner that is free. If that one, or the only runner at its
// second try, cannot read the bundle either, the bundle is unreadable. If such inputs alone made a job fail, the runner does not pause.
//
// Compaction leaves out the bundles that it could not read, and rewrites what lies around them. Six hours after the first of them was found,
// jobs try all of them again. A partition is never cleaned around a bundle, so its cleaning fails and is tried again after a pause, an hour at most. Cleaning
// opens records, and clients can write some that cannot be decompressed. So bundles that only cleaning could not read are reported and not
// left out of compaction.
//
// # What cleaning goes by
//
// Cleaning removes records for good, so it goes by the earlier of two clocks, the state's and the object store's, which is
// asked at most once a minute. A plan carries the checksum of the configs that it goes by, and the offsets that it is for.
// The state refuses it, or ends it, when the configs change, and holds outcomes to the plan.
package job
