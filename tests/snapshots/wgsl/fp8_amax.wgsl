var<workgroup> shared_v36: array<u32, 256>;
@group(0) @binding(1) var<storage, read_write> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_i32: array<i32, 2>, static_meta: array<u32, 2> }
@group(0) @binding(2) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 4, 1)
fn fp8_amax(@builtin(local_invocation_id) v225: vec3<u32>, @builtin(workgroup_id) v231: vec3<u32>, @builtin(num_workgroups) v233: vec3<u32>) {
let v239 = &v5;
let v240 = &v1;
let v203 = info_var.static_meta[1];
let v9 = info_var.scalars_usize[0];
let v232 = v231[2];
let v209 = u32(v232);
let v234 = v233[1];
let v211 = u32(v234);
let v212 = v209 * v211;
let v235 = v233[0];
let v214 = u32(v235);
let v215 = v212 * v214;
let v236 = v231[1];
let v217 = u32(v236);
let v220 = v217 * v214;
let v221 = v215 + v220;
let v238 = v231[0];
let v223 = u32(v238);
let v224 = v221 + v223;
let v12 = u32(4);
let v13 = v224 * v12;
let v226 = v225[1];
let v15 = u32(v226);
let v16 = v13 + v15;
let v17 = u32(0);
var<function> v204_store: u32;
let v204 = &v204_store;
*v204 = v17;
let v21 = v16 < v203;
if v21 {
let v227 = v225[0];
let v23 = u32(v227);
let v24 = u32(64);
for(var v25: u32 = v23; v25 < v9; v25 += v24) {
let v27 = v16 * v9;
let v28 = v27 + v25;
let v32 = &(*v240)[v28];
let v33 = *v32;
let v34 = *v204;
let v35 = max(v34, v33);
*v204 = v35;

}

}
let v206 = &shared_v36;
let v228 = v225[0];
let v41 = u32(v228);
let v44 = u32(64);
let v45 = v15 * v44;
let v46 = v45 + v41;
let v50 = &(*v206)[v46];
let v51 = *v204;
*v50 = v51;
workgroupBarrier();
let v52 = u32(32);
let v53 = v41 < v52;
if v53 {
let v56 = v46 + v52;
let v60 = &(*v206)[v56];
let v61 = *v60;
let v67 = *v50;
let v68 = max(v67, v61);
*v50 = v68;

}
workgroupBarrier();
let v74 = u32(16);
let v75 = v41 < v74;
if v75 {
let v78 = v46 + v74;
let v82 = &(*v206)[v78];
let v83 = *v82;
let v89 = *v50;
let v90 = max(v89, v83);
*v50 = v90;

}
workgroupBarrier();
let v96 = u32(8);
let v97 = v41 < v96;
if v97 {
let v100 = v46 + v96;
let v104 = &(*v206)[v100];
let v105 = *v104;
let v111 = *v50;
let v112 = max(v111, v105);
*v50 = v112;

}
workgroupBarrier();
let v119 = v41 < v12;
if v119 {
let v122 = v46 + v12;
let v126 = &(*v206)[v122];
let v127 = *v126;
let v133 = *v50;
let v134 = max(v133, v127);
*v50 = v134;

}
workgroupBarrier();
let v140 = u32(2);
let v141 = v41 < v140;
if v141 {
let v144 = v46 + v140;
let v148 = &(*v206)[v144];
let v149 = *v148;
let v155 = *v50;
let v156 = max(v155, v149);
*v50 = v156;

}
workgroupBarrier();
let v162 = u32(1);
let v163 = v41 < v162;
if v163 {
let v166 = v46 + v162;
let v170 = &(*v206)[v166];
let v171 = *v170;
let v177 = *v50;
let v178 = max(v177, v171);
*v50 = v178;

}
workgroupBarrier();
let v187 = &(*v206)[v45];
let v188 = *v187;
let v191 = v228 == v17;
var<function> v207_store: bool;
let v207 = &v207_store;
if v191 {
*v207 = v21;

} else {
let v195 = false;
*v207 = v195;

}
let v196 = *v207;
if v196 {
let v200 = &(*v239)[v16];
*v200 = v188;

}
return;

}
