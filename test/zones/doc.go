// Package zones counts what crosses the boundaries of zones (I6). Three zones of two agents each, the object store, the
// control plane and etcd run as processes in network namespaces of their own, with a link of their own between each two,
// so that the kernel counts every byte from one to another. Clients of three kinds write in each zone, and in each zone
// everything is read that was written in all.
//
//	zone-a   10.200.1.0/24   agents 10.200.1.1, 10.200.1.2; Java writes, franz-go reads
//	zone-b   10.200.2.0/24   agents 10.200.2.1, 10.200.2.2; franz-go writes, librdkafka reads
//	zone-c   10.200.3.0/24   agents 10.200.3.1, 10.200.3.2; librdkafka writes, Java reads
//	store    10.200.4.0/24   10.200.4.1, S3
//	control  10.200.5.0/24   10.200.5.1, one control plane
//	etcd     10.200.6.0/24   10.200.6.1, one member
//
// Links have fixed neighbours and no IPv6: no packet is on them but those of the processes. What an interface counts is
// frames, with their headers; a long send is one frame of up to 64 KiB there, as the kernel hands it over.
//
// Where namespaces are not allowed, or with FRESHET_ZONES_LOOPBACK=1, everything listens at a loopback address of its
// zone (127.0.1.x and so on), behind a proxy that counts the bytes of each connection and asks the kernel whose process
// made it. That counts payload alone, and needs no privilege.
//
// TestZones_Ports uses the same namespaces. Clients of five libraries come by the ports of their zones (--zone-listeners) and name no zone. The
// first zone loses its agents and gets others, at 10.200.1.3 and 10.200.1.4. The test asks each agent for all leaders and coordinators at each
// port, and reads the bytes of each client's connections from the kernel. FRESHET_BREAK=listener-zone gives each zone the port of another
// one, and must make the test fail.
package zones
