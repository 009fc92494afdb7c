@group(0) @binding(4) var<storage, read> v17: array<u32>;
@group(0) @binding(3) var<storage, read> v13: array<u32>;
@group(0) @binding(2) var<storage, read_write> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 6>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn cache_append_f32_f32(@builtin(workgroup_id) v326: vec3<u32>, @builtin(num_workgroups) v328: vec3<u32>, @builtin(local_invocation_index) v335: u32) {
let v383 = &v17;
let v384 = &v13;
let v385 = &v9;
let v386 = &v5;
let v387 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_usize[3];
let v25 = info_var.scalars_usize[4];
let v26 = info_var.scalars_usize[5];
let v327 = v326[2];
let v189 = u32(v327);
let v329 = v328[1];
let v191 = u32(v329);
let v192 = v189 * v191;
let v330 = v328[0];
let v194 = u32(v330);
let v195 = v192 * v194;
let v331 = v326[1];
let v197 = u32(v331);
let v200 = v197 * v194;
let v201 = v195 + v200;
let v333 = v326[0];
let v203 = u32(v333);
let v204 = v201 + v203;
let v377 = u32(64);
let v207 = v204 * v377;
let v336 = v335;
let v209 = u32(v336);
let v210 = v207 + v209;
let v28 = v210 < v26;
if v28 {
let v30 = v210 / v25;
let v31 = v30 / v23;
let v34 = v30 % v23;
let v35 = u32(2);
let v36 = v35 * v31;
let v40 = &(*v383)[v36];
let v41 = *v40;
let v42 = u32(v41);
let v44 = v210 % v25;
let v45 = v42 + v44;
let v46 = v45 / v22;
let v47 = v45 % v22;
let v48 = u32(16);
let v49 = v47 / v48;
var<function> v178_store: u32;
let v178 = &v178_store;
*v178 = v21;
let v51 = v46 < v24;
if v51 {
let v52 = v31 * v24;
let v53 = v52 + v46;
let v57 = &(*v384)[v53];
let v58 = *v57;
let v59 = u32(v58);
let v60 = min(v59, v21);
*v178 = v60;

}
let v62 = v22 / v48;
let v63 = *v178;
let v64 = v63 * v23;
let v65 = v64 + v34;
let v66 = v65 * v62;
let v67 = v66 + v49;
let v68 = u32(384);
let v69 = v67 * v68;
let v72 = u32(1);
let v73 = v36 + v72;
let v77 = &(*v383)[v73];
let v78 = *v77;
let v79 = u32(v78);
let v80 = v45 < v79;
var<function> v179_store: bool;
let v179 = &v179_store;
if v80 {
let v81 = *v178;
let v82 = v81 < v21;
*v179 = v82;

} else {
let v84 = false;
*v179 = v84;

}
let v85 = *v179;
if v85 {
let v87 = v45 % v48;
let v90 = v210 * v48;
let v92 = u32(8);
let v93 = v210 * v92;
let v94 = f32(1.0);
var<function> v180_store: f32;
let v180 = &v180_store;
*v180 = v94;
var<function> v181_store: f32;
let v181 = &v181_store;
*v181 = v94;
for(var v103: u32 = v3; v103 < v48; v103 += v72) {
let v107 = v90 + v103;
let v108 = u32(0);
var<function> v183_store: u32;
let v183 = &v183_store;
*v183 = v108;
let v116 = &(*v387)[v107];
let v117 = *v116;
var<function> v184_store: f32;
let v184 = &v184_store;
*v184 = v117;
let v119 = *v184;
let v120 = bitcast<u32>(v119);
let v125 = *v183;
let v126 = v125 | v120;
*v183 = v126;
let v128 = v103 * v48;
let v129 = v69 + v128;
let v130 = v129 + v87;
let v134 = &(*v385)[v130];
let v135 = *v183;
*v134 = v135;

}
let v136 = u32(256);
let v137 = v69 + v136;
let v139 = v87 * v92;
let v140 = v137 + v139;
for(var v144: u32 = v3; v144 < v92; v144 += v72) {
let v146 = v93 + v144;
let v147 = u32(0);
var<function> v186_store: u32;
let v186 = &v186_store;
*v186 = v147;
let v155 = &(*v386)[v146];
let v156 = *v155;
var<function> v187_store: f32;
let v187 = &v187_store;
*v187 = v156;
let v158 = *v187;
let v159 = bitcast<u32>(v158);
let v164 = *v186;
let v165 = v164 | v159;
*v186 = v165;
let v166 = v140 + v144;
let v170 = &(*v385)[v166];
let v171 = *v186;
*v170 = v171;

}

}

}
return;

}
