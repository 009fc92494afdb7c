@group(0) @binding(4) var<storage, read_write> v17: array<u32>;
@group(0) @binding(3) var<storage, read_write> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 4>, scalars_u32: array<u32, 2>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn sort_scatter(@builtin(workgroup_id) v247: vec3<u32>, @builtin(num_workgroups) v249: vec3<u32>, @builtin(local_invocation_index) v256: u32) {
let v277 = &v17;
let v278 = &v13;
let v279 = &v9;
let v280 = &v5;
let v281 = &v1;
let v3 = u32(0);
let v171 = info_var.static_meta[4];
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_u32[0];
let v248 = v247[2];
let v179 = u32(v248);
let v250 = v249[1];
let v181 = u32(v250);
let v182 = v179 * v181;
let v251 = v249[0];
let v184 = u32(v251);
let v185 = v182 * v184;
let v252 = v247[1];
let v187 = u32(v252);
let v190 = v187 * v184;
let v191 = v185 + v190;
let v254 = v247[0];
let v193 = u32(v254);
let v194 = v191 + v193;
let v274 = u32(64);
let v197 = v194 * v274;
let v257 = v256;
let v199 = u32(v257);
let v200 = v197 + v199;
let v26 = v21 * v22;
let v27 = v200 < v26;
if v27 {
let v29 = v200 % v21;
let v31 = v200 / v21;
let v32 = u32(256);
let v33 = v31 * v32;
let v35 = v33 + v32;
let v36 = min(v35, v23);
let v37 = v29 * v22;
let v38 = v37 + v31;
let v42 = &(*v280)[v38];
let v43 = *v42;
let v44 = u32(v43);
var<function> v172_store: u32;
let v172 = &v172_store;
*v172 = v44;
let v46 = u32(1);
for(var v47: u32 = v33; v47 < v36; v47 += v46) {
let v52 = &(*v281)[v47];
let v53 = *v52;
let v54 = u32(v29);
let v55 = v53 == v54;
if v55 {
let v56 = u32(v47);
let v59 = *v172;
let v61 = &(*v278)[v59];
*v61 = v56;
let v64 = v59 + v46;
*v172 = v64;

}

}
let v66 = v31 == v3;
if v66 {
let v68 = v21 - v46;
let v70 = u32(2);
let v71 = v171 / v70;
var<function> v174_store: u32;
let v174 = &v174_store;
*v174 = v3;
for(var v77: u32 = v3; v77 < v29; v77 += v46) {
let v80 = v77 + v46;
let v84 = &(*v279)[v80];
let v85 = *v84;
let v89 = &(*v279)[v77];
let v90 = *v89;
let v91 = v85 - v90;
let v92 = v91 + v24;
let v93 = u32(1);
let v94 = v92 - v93;
let v95 = v94 / v24;
let v96 = u32(v95);
let v97 = *v174;
let v98 = v97 + v96;
*v174 = v98;

}
let v99 = v29 < v68;
if v99 {
let v101 = v29 + v46;
let v105 = &(*v279)[v101];
let v106 = *v105;
let v110 = &(*v279)[v29];
let v111 = *v110;
let v112 = v106 - v111;
let v113 = v112 + v24;
let v114 = u32(1);
let v115 = v113 - v114;
let v116 = v115 / v24;
let v117 = u32(0);
for(var v119: u32 = v117; v119 < v116; v119 += v114) {
let v121 = u32(v119);
let v122 = *v174;
let v123 = v122 + v121;
let v124 = u32(v29);
let v126 = v70 * v123;
let v130 = &(*v277)[v126];
*v130 = v124;
let v136 = v119 * v24;
let v137 = v111 + v136;
let v141 = v126 + v46;
let v145 = &(*v277)[v141];
*v145 = v137;

}

} else {
let v146 = *v174;
for(var v148: u32 = v146; v148 < v71; v148 += v46) {
let v150 = u32(v68);
let v152 = v70 * v148;
let v156 = &(*v277)[v152];
*v156 = v150;
let v160 = v152 + v46;
let v164 = &(*v277)[v160];
let v165 = u32(0);
*v164 = v165;

}

}

}

}
return;

}
