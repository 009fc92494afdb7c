var<workgroup> shared_v169: array<f32, 64>;
@group(0) @binding(6) var<storage, read_write> v25: array<f32>;
@group(0) @binding(5) var<storage, read_write> v21: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read_write> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 8> }
@group(0) @binding(7) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_backward_f32_gated_silu(@builtin(local_invocation_index) v356: u32, @builtin(workgroup_id) v358: vec3<u32>, @builtin(num_workgroups) v360: vec3<u32>) {
let v381 = &v25;
let v382 = &v21;
let v383 = &v17;
let v384 = &v13;
let v385 = &v9;
let v386 = &v5;
let v387 = &v1;
let v3 = u32(0);
let v29 = info_var.scalars_usize[0];
let v30 = info_var.scalars_usize[1];
let v31 = info_var.scalars_usize[2];
let v32 = info_var.scalars_usize[3];
let v359 = v358[2];
let v311 = u32(v359);
let v361 = v360[1];
let v313 = u32(v361);
let v314 = v311 * v313;
let v362 = v360[0];
let v316 = u32(v362);
let v317 = v314 * v316;
let v363 = v358[1];
let v319 = u32(v363);
let v322 = v319 * v316;
let v323 = v317 + v322;
let v365 = v358[0];
let v325 = u32(v365);
let v326 = v323 + v325;
let v378 = u32(64);
let v329 = v326 * v378;
let v367 = v356;
let v331 = u32(v367);
let v332 = v329 + v331;
let v35 = v332 / v378;
let v38 = v332 % v378;
let v39 = u32(1);
let v40 = v30 - v39;
let v41 = min(v35, v40);
let v45 = &(*v385)[v41];
let v46 = *v45;
let v47 = u32(v46);
let v48 = v35 * v32;
let v49 = u32(2);
let v50 = v48 * v49;
let v51 = f32(0.0);
let v52 = vec4<f32>(v51);
var<function> v289_store: vec4<f32>;
let v289 = &v289_store;
*v289 = v52;
let v57 = &(*v384)[v29];
let v58 = *v57;
let v59 = u32(v58);
let v60 = v35 < v59;
if v60 {
let v64 = &(*v383)[v47];
let v65 = *v64;
let v66 = vec4<f32>(v65);
for(var v68: u32 = v38; v68 < v32; v68 += v378) {
let v71 = v48 + v68;
let v75 = &(*v386)[v71];
let v76 = *v75;
let v77 = v50 + v68;
let v78 = v66 * v76;
let v82 = &(*v387)[v77];
let v83 = *v82;
let v86 = f32(1.0);
let v87 = vec4<f32>(v86);
let v88 = -v83;
let v89 = exp(v88);
let v90 = v87 + v89;
let v91 = v83 / v90;
let v101 = v87 / v90;
let v102 = v83 * v101;
let v103 = v87 - v101;
let v380 = fma(v102, v103, v101);
let v106 = v78 * v380;
let v107 = v77 + v32;
let v111 = &(*v387)[v107];
let v112 = *v111;
let v113 = v106 * v112;
let v117 = &(*v382)[v77];
*v117 = v113;
let v118 = v78 * v91;
let v123 = &(*v382)[v107];
*v123 = v118;
let v124 = v91 * v112;
let v125 = v66 * v124;
*v75 = v125;
let v132 = *v289;
let v133 = fma(v76, v124, v132);
*v289 = v133;

}

} else {
let v134 = v35 < v31;
if v134 {
for(var v136: u32 = v38; v136 < v32; v136 += v378) {
let v141 = v48 + v136;
let v145 = &(*v386)[v141];
*v145 = v52;
let v146 = v50 + v136;
let v155 = &(*v382)[v146];
*v155 = v52;
let v160 = v146 + v32;
let v164 = &(*v382)[v160];
*v164 = v52;

}

}

}
let v165 = *v289;
var<function> v309_store: f32;
let v309 = &v309_store;
*v309 = v51;
let v295 = v165[0];
let v296 = *v309;
let v297 = v296 + v295;
*v309 = v297;
let v298 = v165[1];
let v299 = *v309;
let v300 = v299 + v298;
*v309 = v300;
let v301 = v165[2];
let v302 = *v309;
let v303 = v302 + v301;
*v309 = v303;
let v304 = v165[3];
let v305 = *v309;
let v306 = v305 + v304;
*v309 = v306;
let v307 = *v309;
let v308 = &shared_v169;
let v176 = &(*v308)[v331];
*v176 = v307;
workgroupBarrier();
let v177 = u32(32);
let v178 = v331 < v177;
if v178 {
let v180 = v331 + v177;
let v184 = &(*v308)[v180];
let v185 = *v184;
let v190 = *v176;
let v191 = v190 + v185;
*v176 = v191;

}
workgroupBarrier();
let v192 = u32(16);
let v193 = v331 < v192;
if v193 {
let v195 = v331 + v192;
let v199 = &(*v308)[v195];
let v200 = *v199;
let v205 = *v176;
let v206 = v205 + v200;
*v176 = v206;

}
workgroupBarrier();
let v207 = u32(8);
let v208 = v331 < v207;
if v208 {
let v210 = v331 + v207;
let v214 = &(*v308)[v210];
let v215 = *v214;
let v220 = *v176;
let v221 = v220 + v215;
*v176 = v221;

}
workgroupBarrier();
let v222 = u32(4);
let v223 = v331 < v222;
if v223 {
let v225 = v331 + v222;
let v229 = &(*v308)[v225];
let v230 = *v229;
let v235 = *v176;
let v236 = v235 + v230;
*v176 = v236;

}
workgroupBarrier();
let v238 = v331 < v49;
if v238 {
let v240 = v331 + v49;
let v244 = &(*v308)[v240];
let v245 = *v244;
let v250 = *v176;
let v251 = v250 + v245;
*v176 = v251;

}
workgroupBarrier();
let v253 = v331 < v39;
if v253 {
let v255 = v331 + v39;
let v259 = &(*v308)[v255];
let v260 = *v259;
let v265 = *v176;
let v266 = v265 + v260;
*v176 = v266;

}
workgroupBarrier();
let v271 = &(*v308)[v3];
let v272 = *v271;
let v274 = v38 == v3;
let v275 = v35 < v30;
let v276 = v274 && v275;
if v276 {
let v280 = &(*v381)[v47];
*v280 = v272;

}
return;

}
